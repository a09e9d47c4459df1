package servertls_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/client/clienttls"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/server/servertls"
)

// serveWho serves a function that returns the identity of its caller, or says that it is elsewhere.
func serveWho(t *testing.T, address string, files *servertls.Files, elsewhere string) string {
	t.Helper()
	options := []server.Option{server.WithLogger(slog.New(slog.DiscardHandler))}
	if files != nil {
		options = append(options, newCertificates(t, *files).Option())
	}
	s, err := server.New(options...)
	must(t, err)
	must(t, s.Register("who", func(ctx context.Context) string {
		call, _ := server.CallFromContext(ctx)
		if elsewhere != "" {
			return "through the gateway"
		}
		return call.Peer.Identity
	}, server.Elsewhere(func(server.Peer) (string, time.Duration) { return elsewhere, time.Minute })))
	return serveAt(t, s, address)
}

// Directions to tls: addresses are followed by those that want it, with their own authorities and
// certificates, and what of the told address does not hold brings calls back.
func TestDirectionsToOtherMachines(t *testing.T) {
	p := newPlace(t)
	asks := p.asks()
	far := serveWho(t, "tls:127.0.0.1:0", &asks, "")
	any := client.WithDirect(client.DirectAny)
	for what, row := range map[string]struct {
		gateway, told string // a scheme, and parameters of what is told
		options       []client.Option
		want          string
	}{
		"by default":             {"unix", "", []client.Option{clienttls.With(p.shows("client"))}, "through the gateway"},
		"by option":              {"unix", "", []client.Option{clienttls.With(p.shows("client")), any}, "spiffe://example.org/client"},
		"without TLS":            {"unix", "", []client.Option{any}, "through the gateway"},
		"told over TLS":          {"tls", "", []client.Option{clienttls.With(p.shows("client")), any}, "spiffe://example.org/client"},
		"told over TCP":          {"tcp", "", []client.Option{clienttls.With(p.shows("client")), any}, "through the gateway"},
		"the name of the server": {"unix", "?name=localhost", []client.Option{clienttls.With(p.shows("client")), any}, "spiffe://example.org/client"},
		"of another server":      {"unix", "?name=elsewhere.example", []client.Option{clienttls.With(p.shows("client")), any}, "through the gateway"},
		"files are not theirs":   {"unix", "?ca=/nowhere&cert=/nowhere", []client.Option{clienttls.With(p.shows("client")), any}, "spiffe://example.org/client"},
		"without a certificate":  {"unix", "", []client.Option{clienttls.With(p.shows("")), any}, "through the gateway"},
		"other authorities": {"unix", "", []client.Option{clienttls.With(clienttls.Files{Authorities: newPlace(t).path("ca.pem")}), any},
			"through the gateway"},
	} {
		t.Run(what, func(t *testing.T) {
			address, files := "tcp:127.0.0.1:0", (*servertls.Files)(nil)
			switch row.gateway {
			case "unix":
				address = "unix:" + filepath.Join(t.TempDir(), "s")
			case "tls":
				address, files = "tls:127.0.0.1:0", &asks
			}
			c := newClient(t, serveWho(t, address, files, far+row.told), row.options...)
			for _, want := range []string{"through the gateway", row.want, row.want} {
				got, err := client.Call[string](context.Background(), c, "who")
				must(t, err)
				if got != want {
					t.Errorf("the call was made by %q, want %q", got, want)
				}
			}
		})
	}
}
