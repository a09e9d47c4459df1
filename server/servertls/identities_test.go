package servertls_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/client/clienttls"
	"github.com/nearcall/nearcall/forward"
	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/server/servertls"
	"github.com/nearcall/nearcall/status"
	"github.com/nearcall/nearcall/tests/programs/certificates/authority"
)

func TestIdentitiesReachFunctionsAndInterceptors(t *testing.T) {
	p := newPlace(t)
	var seen atomic.Value
	s, err := server.New(newCertificates(t, p.asks()).Option(), server.WithLogger(slog.New(slog.DiscardHandler)),
		server.WithInterceptor(func(ctx context.Context, call intercept.Call, next intercept.Next) error {
			seen.Store(call.Peer().Identity)
			return next(ctx)
		}))
	must(t, err)
	must(t, s.Register("who", func(ctx context.Context) string {
		call, _ := server.CallFromContext(ctx)
		return fmt.Sprint(call.Peer.Identity, " ", call.Peer.Names(), " ", call.Peer.Local)
	}))
	c := newClient(t, serveAt(t, s, "tls:127.0.0.1:0"), clienttls.With(p.shows("client")))
	who, err := client.Call[string](context.Background(), c, "who")
	must(t, err)
	if want := "spiffe://example.org/client [spiffe://example.org/client client.example.org] false"; who != want {
		t.Errorf("the function sees %q, want %q", who, want)
	}
	if seen.Load() != "spiffe://example.org/client" {
		t.Errorf("the interceptor sees %v", seen.Load())
	}
	if c.Transport() != "tls" {
		t.Errorf("Transport() is %q", c.Transport())
	}
}

func TestAllowedIdentities(t *testing.T) {
	p := newPlace(t)
	for pattern, admitted := range map[string]bool{
		"spiffe://example.org/client": true, "spiffe://example.org/*": true, "*.example.org": true, "client.example.org": true, "*": true,
		"spiffe://example.org": false, "spiffe://example.org/cli/*": false, "*.client.example.org": false, "example.org": false, "spiffe://other.org/*": false,
	} {
		address := serve(t, newCertificates(t, p.asks()), server.WithAllowedIdentities(pattern))
		err := ack(t, newClient(t, address, clienttls.With(p.shows("client"))))
		if admitted && err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
		if !admitted {
			refusal{status.PermissionDenied, "spiffe://example.org/client, client.example.org may not call this server"}.check(t, err)
		}
	}
	for _, pattern := range []string{"", "*.", "a*", "*a", "*.a.*", "/*"} {
		if _, err := server.New(server.WithAllowedIdentities(pattern)); err == nil && pattern != "" {
			t.Errorf("the pattern %q was accepted", pattern)
		}
	}
}

// TestWhatPatternsFit: patterns of hosts fit no other names, and any certificate is one.
func TestWhatPatternsFit(t *testing.T) {
	p := newPlace(t)
	people, err := authority.New("People")
	must(t, err)
	must(t, authority.Put(string(p), "people.pem", people.PEM()))
	for name, row := range map[string]struct {
		shown          authority.Subject
		admits, others string
		refused        string
	}{
		"mail":    {authority.Subject{EmailAddresses: []string{"alice@mail.example.org"}}, "alice@mail.example.org", "*.example.org", "alice@mail.example.org may not"},
		"uri":     {authority.Subject{URI: "spiffe://other.org/x.example.org"}, "spiffe://other.org/*", "*.example.org", "spiffe://other.org/x.example.org may not"},
		"host":    {authority.Subject{DNSNames: []string{"a.example.org"}}, "*.example.org", "*.A.example.org", "a.example.org may not"},
		"no name": {authority.Subject{IPs: authority.Loopback()}, "*", "*.example.org", "a caller whose certificate has no name may not"},
	} {
		t.Run(name, func(t *testing.T) {
			row.shown.Client = true
			pair, err := people.Issue(row.shown)
			must(t, err)
			must(t, errors.Join(authority.Put(string(p), "person.pem", pair.Certificate), authority.Put(string(p), "person.key", pair.Key)))
			files := p.asks()
			files.ClientAuthorities, files.Revoked = p.path("people.pem"), ""
			call := func(pattern string) error {
				address := serve(t, newCertificates(t, files), server.WithAllowedIdentities(pattern))
				return ack(t, newClient(t, address, clienttls.With(p.shows("person"))))
			}
			must(t, call(row.admits))
			refusal{status.PermissionDenied, row.refused}.check(t, call(row.others))
		})
	}
}

// TestIdentitiesOfFunctions: the list of one function, over TLS and on a local socket.
func TestIdentitiesOfFunctions(t *testing.T) {
	p := newPlace(t)
	files := p.asks()
	files.Clients = servertls.Asked
	s, err := server.New(newCertificates(t, files).Option(), server.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	admin := s.Group("admin.", server.Identities("spiffe://example.org/client"))
	ran := atomic.Int64{}
	must(t, admin.Register("reload", func() { ran.Add(1) }))
	must(t, s.Register("open", func() {}))
	must(t, s.RegisterForwarded([]byte(`{"name":"passed_on","params":[],"results":[]}`), func(context.Context, *forward.Request, []byte) (forward.Reply, error) {
		ran.Add(1)
		return forward.Reply{}, status.Errorf(status.NotFound, "not here").With(status.OutcomeExecuted)
	}, server.Identities("spiffe://example.org/client")))
	secure := serveAt(t, s, "tls:127.0.0.1:0")
	local := serveAt(t, s, "unix:"+filepath.Join(t.TempDir(), "s"))
	for name, c := range map[string]*client.Client{
		"nobody": newClient(t, secure, clienttls.With(p.shows(""))),
		"local":  newClient(t, "unix:"+strings.TrimPrefix(local, "unix:")),
	} {
		for _, function := range []string{"admin.reload", "passed_on"} {
			refusal{status.PermissionDenied, "a caller without a certificate may not call " + function}.check(t, c.Call(context.Background(), function, nil))
		}
		if err := c.Call(context.Background(), "open", nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := newClient(t, secure, clienttls.With(p.shows("client")))
	must(t, c.Call(context.Background(), "admin.reload", nil))
	if err := c.Call(context.Background(), "passed_on", nil); !errors.Is(err, status.NotFound) {
		t.Error(err)
	}
	if ran.Load() != 2 {
		t.Errorf("the functions ran %d times, want 2", ran.Load())
	}
	if err := s.Register("late", func() {}); !errors.Is(err, server.ErrServing) {
		t.Error(err)
	}
}

func TestListsOfIdentitiesNeedTLS(t *testing.T) {
	s, err := server.New(server.WithAllowedIdentities("*"))
	must(t, err)
	if err := s.ListenAndServe(context.Background(), "tcp:127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "tls:") {
		t.Errorf("a server with a list of identities serves TCP: %v", err)
	}
	p := newPlace(t)
	certificates := newCertificates(t, servertls.Files{Certificate: p.path("server.pem"), Key: p.path("server.key")})
	s, err = server.New(server.WithAllowedIdentities("*"), certificates.Option())
	must(t, err)
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if err := s.ListenAndServe(ctx, "tls:127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "ClientAuthorities") {
		t.Errorf("a server with a list of identities serves callers that it does not ask for them: %v", err)
	}
	under, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	if err := s.Serve(ctx, certificates.Listener(under)); err == nil || !strings.Contains(err.Error(), "ClientAuthorities") {
		t.Errorf("so it does on a socket that others have made: %v", err)
	}
}
