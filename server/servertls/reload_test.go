package servertls_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client/clienttls"
	"github.com/nearcall/nearcall/server/servertls"
	"github.com/nearcall/nearcall/status"
	"github.com/nearcall/nearcall/tests/programs/certificates/authority"
)

// resumed makes a connection with a configuration, and reports whether an earlier session was
// taken up.
func resumed(t *testing.T, address string, config *tls.Config) bool {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(address, "tls:"), config)
	must(t, err)
	defer conn.Close()
	// The session comes after the handshake, with the first bytes at the latest.
	conn.SetDeadline(time.Now().Add(patience))
	_, err = conn.Write([]byte{0, 0, 0, 13})
	must(t, err)
	_, err = conn.Write([]byte(`{"f":"bench"}`))
	must(t, err)
	_, err = conn.Read(make([]byte, 1))
	must(t, err)
	return conn.ConnectionState().DidResume
}

func TestSessionsAreTakenUpUntilAReload(t *testing.T) {
	p := newPlace(t)
	certificates := newCertificates(t, p.asks())
	address := serve(t, certificates)
	text, err := os.ReadFile(p.path("ca.pem"))
	must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	own, err := tls.LoadX509KeyPair(p.path("client.pem"), p.path("client.key"))
	must(t, err)
	config := &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{own}, ClientSessionCache: tls.NewLRUClientSessionCache(2)}
	if resumed(t, address, config) {
		t.Fatal("the first connection takes a session up")
	}
	if !resumed(t, address, config) {
		t.Error("the second connection does not take the session up")
	}
	must(t, certificates.Reload())
	if resumed(t, address, config) {
		t.Error("a session from before the reload is taken up")
	}
	if !resumed(t, address, config) {
		t.Error("a session from after the reload is not taken up")
	}
}

// TestRevokedByReload: the connection that is open is closed with words, and no other caller
// notices anything.
func TestRevokedByReload(t *testing.T) {
	p := newPlace(t)
	files := p.asks()
	files.Revoked = p.path("numbers")
	must(t, os.WriteFile(files.Revoked, []byte("# none so far\n"), 0o600))
	certificates := newCertificates(t, files)
	address := serve(t, certificates)
	stays := newClient(t, address, clienttls.With(p.shows("client")))
	goes := newClient(t, address, clienttls.With(p.shows("revoked")))
	must(t, ack(t, stays))
	must(t, ack(t, goes))

	waits := make(chan error, 1)
	go func() { waits <- goes.Call(context.Background(), "sleep", nil, 20_000) }()
	began := time.Now()
	for goes.Statistics().CallsInFlight == 0 {
		if time.Since(began) > patience {
			t.Fatal("the call does not begin")
		}
		time.Sleep(time.Millisecond)
	}
	list, err := os.ReadFile(p.path("revoked-list.pem"))
	must(t, err)
	must(t, authority.Put(string(p), "numbers", append([]byte("aabbcc # somebody else\n"), list...)))
	must(t, certificates.Reload())
	select {
	case err := <-waits:
		if err == nil || !strings.Contains(err.Error(), "was revoked") {
			t.Errorf("the call that waited: %v", err)
		}
	case <-time.After(patience):
		t.Error("the call of the revoked caller goes on")
	}
	refusal{status.Unauthenticated, "was revoked"}.check(t, ack(t, goes))
	must(t, ack(t, stays))
	if opened := stays.Statistics().ConnectionsTotal; opened != 1 {
		t.Errorf("the caller that stays has opened %d connections", opened)
	}
}

// TestReloadKeepsWhatWasGood: a file that is just being written changes nothing.
func TestReloadKeepsWhatWasGood(t *testing.T) {
	p := newPlace(t)
	certificates := newCertificates(t, servertls.Files{Certificate: p.path("server.pem"), Key: p.path("server.key")})
	address := serve(t, certificates)
	must(t, os.WriteFile(p.path("server.pem"), []byte("-----BEGIN CERT"), 0o600))
	if err := certificates.Reload(); err == nil {
		t.Error("a broken file was accepted")
	}
	must(t, ack(t, newClient(t, address, clienttls.With(p.shows("")))))
}

// TestClientsReadTheirFilesAnew: a caller that runs for long gets a new certificate.
func TestClientsReadTheirFilesAnew(t *testing.T) {
	p := newPlace(t)
	address := serve(t, newCertificates(t, p.asks()))
	copyTo := func(name string) {
		for _, end := range []string{".pem", ".key"} {
			text, err := os.ReadFile(p.path(name + end))
			must(t, err)
			must(t, authority.Put(string(p), "own"+end, text))
		}
	}
	copyTo("expired")
	c := newClient(t, address, clienttls.With(p.shows("own")))
	refusal{status.Unauthenticated, "expired on"}.check(t, ack(t, c))
	copyTo("client")
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := ack(t, c)
		if err == nil {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("the new certificate is not used after %v: %v", patience, err)
		}
	}
}
