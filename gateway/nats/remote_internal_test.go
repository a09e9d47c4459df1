package gateway

import (
	"strings"
	"testing"

	"github.com/nearcall/nearcall/status"
)

// Callers are told where a server is in words, and not by the address that only clients of the gateway
// have.
func TestWhereAServerIs(t *testing.T) {
	r := &remote{name: "demo", label: "tcp:demo.b:1", places: []place{{host: "b"}}}
	err := r.inWords(notExecuted(status.Unavailable, "no server at tcp:demo.b:1: %s; is it running?", errGatewayGone))
	if want := "no connection to server demo at b: the gateway there is not connected to NATS any more; is it running?"; !strings.Contains(err.Error(), want) {
		t.Errorf("got %q, want %q", err, want)
	}
}
