package servertls_test

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/client/clienttls"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/server/servertls"
	"github.com/nearcall/nearcall/tests/programs/certificates/authority"
	"github.com/nearcall/nearcall/tests/programs/demo"
)

const patience = 10 * time.Second

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A place is a folder of certificates.
type place string

func newPlace(t testing.TB) place {
	t.Helper()
	folder := t.TempDir()
	must(t, authority.Write(folder))
	return place(folder)
}

func (p place) path(name string) string { return filepath.Join(string(p), name) }

// asks are the files of a server that asks for certificates.
func (p place) asks() servertls.Files {
	return servertls.Files{Certificate: p.path("server.pem"), Key: p.path("server.key"), ClientAuthorities: p.path("ca.pem"), Revoked: p.path("revoked-list.pem")}
}

// shows are the files of a client with the certificate of that name, or with none.
func (p place) shows(name string) clienttls.Files {
	files := clienttls.Files{Authorities: p.path("ca.pem")}
	if name != "" {
		files.Certificate, files.Key = p.path(name+".pem"), p.path(name+".key")
	}
	return files
}

func newCertificates(t testing.TB, files servertls.Files) *servertls.Certificates {
	t.Helper()
	certificates, err := servertls.New(files)
	must(t, err)
	return certificates
}

// serve serves the demonstration functions and returns the address.
func serve(t testing.TB, certificates *servertls.Certificates, options ...server.Option) string {
	t.Helper()
	s, err := server.New(append([]server.Option{certificates.Option(), server.WithLogger(slog.New(slog.DiscardHandler))}, options...)...)
	must(t, err)
	demo.Register(s)
	return serveAt(t, s, "tls:127.0.0.1:0")
}

func serveAt(t testing.TB, s *server.Server, address string) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	listener, err := s.Listen(ctx, address)
	must(t, err)
	return serveOn(t, s, ctx, stop, listener)
}

func serveOn(t testing.TB, s *server.Server, ctx context.Context, stop context.CancelFunc, listener net.Listener) string {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().Network() + ":" + listener.Addr().String()
}

func newClient(t testing.TB, address string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(address, options...)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// ack calls a function, which takes no more than patience.
func ack(t testing.TB, c *client.Client) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	sum, err := client.Call[int64](ctx, c, "ack", 2, 3)
	if err == nil && sum != 9 {
		t.Errorf("ack = %d, want 9", sum)
	}
	return err
}
