package servertls_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/client/clienttls"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/server/servertls"
	"github.com/nearcall/nearcall/status"
	"github.com/nearcall/nearcall/tests/programs/certificates/authority"
)

// A refusal is what a caller is told whose call does not get through.
type refusal struct {
	code  status.Code
	words string
}

func (r refusal) check(t *testing.T, err error) {
	t.Helper()
	var failure *status.Error
	if !errors.As(err, &failure) {
		t.Fatalf("error %v, want %v", err, r.code)
	}
	if failure.Code != r.code || failure.Outcome != status.OutcomeNotExecuted || !strings.Contains(failure.Message, r.words) {
		t.Errorf("%v, %v: %s\nwant %v, not executed: ... %s ...", failure.Code, failure.Outcome, failure.Message, r.code, r.words)
	}
}

// TestClientsAreRefusedWithWords: by a server that asks for certificates.
func TestClientsAreRefusedWithWords(t *testing.T) {
	p := newPlace(t)
	address := serve(t, newCertificates(t, p.asks()), server.WithAllowedIdentities("spiffe://example.org/*"))
	for name, want := range map[string]refusal{
		"":         {status.Unauthenticated, "asks for a client certificate, and none was given"},
		"expired":  {status.Unauthenticated, "the certificate of spiffe://example.org/expired, expired.example.org expired on "},
		"revoked":  {status.Unauthenticated, "the certificate of spiffe://example.org/revoked, revoked.example.org was revoked"},
		"stranger": {status.Unauthenticated, `issued by "CN=Other authority", is not from an authority that is trusted here`},
		"server":   {status.Unauthenticated, "may not be used for this side of a connection"},
	} {
		t.Run("shows "+name, func(t *testing.T) {
			want.check(t, ack(t, newClient(t, address, clienttls.With(p.shows(name)))))
		})
	}
	if err := ack(t, newClient(t, address, clienttls.With(p.shows("client")))); err != nil {
		t.Errorf("a client whose certificate holds: %v", err)
	}
}

// TestServersAreRefusedWithWords: by a client.
func TestServersAreRefusedWithWords(t *testing.T) {
	p := newPlace(t)
	for name, want := range map[string]refusal{
		"expired-server": {status.Unauthenticated, "the server's certificate expired on "},
		"other-name":     {status.Unauthenticated, "the server's certificate is for other.example.org, not for 127.0.0.1"},
		"client":         {status.Unauthenticated, "the server's certificate is for "},
	} {
		t.Run(name, func(t *testing.T) {
			address := serve(t, newCertificates(t, servertls.Files{Certificate: p.path(name + ".pem"), Key: p.path(name + ".key")}))
			want.check(t, ack(t, newClient(t, address, clienttls.With(p.shows("")))))
		})
	}
	t.Run("stranger", func(t *testing.T) {
		address := serve(t, newCertificates(t, servertls.Files{Certificate: p.path("server.pem"), Key: p.path("server.key")}))
		refusal{status.Unauthenticated, "is not from an authority that is trusted here"}.check(t,
			ack(t, newClient(t, address, clienttls.With(clienttls.Files{Authorities: p.path("stranger-ca.pem")}))))
	})
}

// TestOthersAreRefusedWithWords: who speaks an older TLS, another protocol within TLS, or no
// TLS at all.
func TestOthersAreRefusedWithWords(t *testing.T) {
	p := newPlace(t)
	certificate, err := tls.LoadX509KeyPair(p.path("server.pem"), p.path("server.key"))
	must(t, err)
	for name, test := range map[string]struct {
		config *tls.Config
		want   refusal
	}{
		"TLS 1.2":          {&tls.Config{MaxVersion: tls.VersionTLS12}, refusal{status.Unauthenticated, "speaks no TLS 1.3"}},
		"another protocol": {&tls.Config{NextProtos: []string{"h2"}}, refusal{status.Unauthenticated, "speaks TLS for another protocol than nearcall/1"}},
	} {
		t.Run(name, func(t *testing.T) {
			test.config.Certificates = []tls.Certificate{certificate}
			test.want.check(t, ack(t, newClient(t, accepting(t, test.config), clienttls.With(p.shows("")))))
		})
	}
	certificates := newCertificates(t, servertls.Files{Certificate: p.path("server.pem"), Key: p.path("server.key")})
	t.Run("plain caller", func(t *testing.T) {
		address := "tcp" + strings.TrimPrefix(serve(t, certificates), "tls")
		refusal{status.Unauthenticated, "this address is for TLS"}.check(t, ack(t, newClient(t, address)))
	})
	t.Run("plain server", func(t *testing.T) {
		s, err := server.New()
		must(t, err)
		address := "tls" + strings.TrimPrefix(serveAt(t, s, "tcp:127.0.0.1:0"), "tcp")
		refusal{status.Unavailable, "the server speaks no TLS"}.check(t, ack(t, newClient(t, address, clienttls.With(p.shows("")))))
	})
}

// TestManyNamesAreNotAllTold: a certificate may hold any number of names, and its owner must be told
// why it is refused all the same.
func TestManyNamesAreNotAllTold(t *testing.T) {
	p := newPlace(t)
	issuer, err := authority.New("Names")
	must(t, err)
	names := make([]string, 800)
	for i := range names {
		names[i] = fmt.Sprintf("%s%04d.example.org", strings.Repeat("n", 36), i)
	}
	for name, until := range map[string]time.Time{"ended": time.Now().Add(-time.Hour), "holds": {}} {
		pair, err := issuer.Issue(authority.Subject{Client: true, DNSNames: names, Until: until})
		must(t, errors.Join(err, authority.Put(string(p), name+".pem", pair.Certificate), authority.Put(string(p), name+".key", pair.Key)))
	}
	must(t, authority.Put(string(p), "names.pem", issuer.PEM()))
	files := p.asks()
	files.ClientAuthorities, files.Revoked = p.path("names.pem"), ""
	address := serve(t, newCertificates(t, files), server.WithAllowedIdentities("client.example.org"))
	for name, want := range map[string]refusal{
		"ended": {status.Unauthenticated, "0002.example.org and 797 more expired on "},
		"holds": {status.PermissionDenied, "n0000.example.org, "},
	} {
		t.Run(name, func(t *testing.T) {
			want.check(t, ack(t, newClient(t, address, clienttls.With(p.shows(name)))))
		})
	}
}

// accepting returns the address of a server that only agrees on keys.
func accepting(t *testing.T, config *tls.Config) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.(*tls.Conn).Handshake()
			conn.Close()
		}
	}()
	return "tls:" + listener.Addr().String()
}

// A caller that speaks an older TLS is sent the alert, and the server goes on.
func TestOldCallersAreRefused(t *testing.T) {
	p := newPlace(t)
	address := serve(t, newCertificates(t, servertls.Files{Certificate: p.path("server.pem"), Key: p.path("server.key")}))
	conn, err := net.Dial("tcp", strings.TrimPrefix(address, "tls:"))
	must(t, err)
	defer conn.Close()
	err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}).Handshake()
	if err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("handshake with TLS 1.2: %v", err)
	}
	must(t, ack(t, newClient(t, address, clienttls.With(p.shows("")))))
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	p := newPlace(t)
	must(t, os.WriteFile(p.path("empty.pem"), nil, 0o600))
	must(t, os.WriteFile(p.path("words"), []byte("not a number\n"), 0o600))
	good := p.asks()
	for name, change := range map[string]func(*servertls.Files){
		"no certificate":      func(f *servertls.Files) { f.Certificate = p.path("nothing.pem") },
		"key of another":      func(f *servertls.Files) { f.Key = p.path("client.key") },
		"no authority inside": func(f *servertls.Files) { f.ClientAuthorities = p.path("empty.pem") },
		"no serial number":    func(f *servertls.Files) { f.Revoked = p.path("words") },
		"list of a stranger":  func(f *servertls.Files) { f.ClientAuthorities = p.path("stranger-ca.pem") },
		"asked of nobody":     func(f *servertls.Files) { f.ClientAuthorities = "" },
	} {
		files := good
		change(&files)
		if _, err := servertls.New(files); err == nil {
			t.Errorf("%s: New succeeded", name)
		} else {
			t.Log(err)
		}
	}
	address := serve(t, newCertificates(t, good))
	for name, change := range map[string]func(*clienttls.Files){
		"no authorities": func(f *clienttls.Files) { f.Authorities = p.path("nothing.pem") },
		"key of another": func(f *clienttls.Files) { f.Key = p.path("revoked.key") },
	} {
		files := p.shows("client")
		change(&files)
		t.Run(name, func(t *testing.T) {
			refusal{status.InvalidArgument, "cannot be"}.check(t, ack(t, newClient(t, address, clienttls.With(files))))
		})
	}
}

// A client with no configuration of its own trusts the authorities of the system.
func TestAClientWithoutAConfiguration(t *testing.T) {
	p := newPlace(t)
	address := serve(t, newCertificates(t, servertls.Files{Certificate: p.path("server.pem"), Key: p.path("server.key")}))
	refusal{status.Unauthenticated, "is not from an authority that is trusted here"}.check(t,
		ack(t, newClient(t, address, clienttls.WithConfig(nil))))
}

func TestTLSNeedsAnOption(t *testing.T) {
	if _, err := client.New("tls:localhost:1"); !errors.Is(err, status.InvalidArgument) || !strings.Contains(err.Error(), "clienttls.With") {
		t.Errorf("a client without the option: %v", err)
	}
	s, err := server.New()
	must(t, err)
	if _, err := s.Listen(context.Background(), "tls:localhost:0"); err == nil || !strings.Contains(err.Error(), "servertls.New") {
		t.Errorf("a server without the option: %v", err)
	}
}
