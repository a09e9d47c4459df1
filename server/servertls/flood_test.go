package servertls_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client/clienttls"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/server/servertls"
)

// A caller gets through within this time while others do not go on with their handshakes.
const canaryWithin = 100 * time.Millisecond

// TestHalfOpenHandshakesStopNobody: a thousand peers have begun a handshake and say nothing
// more.
func TestHalfOpenHandshakesStopNobody(t *testing.T) {
	p := newPlace(t)
	address := serve(t, newCertificates(t, servertls.Files{Certificate: p.path("server.pem"), Key: p.path("server.key")}),
		server.WithHelloTimeout(30*time.Second))
	target := strings.TrimPrefix(address, "tls:")
	for range 1000 {
		conn, err := net.Dial("tcp", target)
		must(t, err)
		defer conn.Close()
		// The beginning of a record that announces a hello.
		_, err = conn.Write([]byte{22, 3, 1, 2, 0, 1})
		must(t, err)
	}
	// The best of some tries: other processes may have the machine meanwhile.
	best := time.Hour
	for range 5 {
		c := newClient(t, address, clienttls.With(p.shows("")))
		began := time.Now()
		must(t, ack(t, c))
		best = min(best, time.Since(began))
	}
	if best > canaryWithin {
		t.Errorf("a call takes %v beside a thousand half-open handshakes, want at most %v", best, canaryWithin)
	}
}
