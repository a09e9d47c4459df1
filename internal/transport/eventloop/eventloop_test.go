package eventloop_test

import (
	"path/filepath"
	"testing"

	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/eventloop"
	"github.com/nearcall/nearcall/internal/transport/tcp"
	"github.com/nearcall/nearcall/internal/transport/transporttest"
	"github.com/nearcall/nearcall/internal/transport/unixsocket"
)

// open returns the engine's transport on top of another until the test ends.
func open(t *testing.T, under transport.Transport) transport.ParkingTransport {
	t.Helper()
	made, err := eventloop.Engine{}.Open(under)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := made.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return made
}

func unixAddress(t *testing.T) string { return "unix:" + filepath.Join(t.TempDir(), "s") }

func tcpAddress(*testing.T) string { return "tcp:127.0.0.1:0" }

func TestTransport(t *testing.T) {
	for _, test := range []struct {
		name       string
		under      transport.Transport
		newAddress func(*testing.T) string
	}{
		{"Unix", unixsocket.Transport{}, unixAddress},
		{"TCP", tcp.Transport{}, tcpAddress},
	} {
		t.Run(test.name, func(t *testing.T) {
			transporttest.Run(t, open(t, test.under), test.newAddress)
		})
	}
}
