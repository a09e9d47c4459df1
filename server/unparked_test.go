package server_test

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/server"
)

// A refusingEngine takes no connection over.
type refusingEngine struct{ asked, wrapped *atomic.Int64 }

func (e refusingEngine) Open(under transport.Transport) (transport.ParkingTransport, error) {
	return refusingTransport{under, e}, nil
}

type refusingTransport struct {
	transport.Transport
	engine refusingEngine
}

func (r refusingTransport) TakeOver(net.Conn) (transport.ParkingConn, error) {
	r.engine.asked.Add(1)
	return nil, errors.New("refused")
}

func (r refusingTransport) Wrap(conn net.Conn) net.Conn {
	r.engine.wrapped.Add(1)
	return r.Transport.Wrap(conn)
}

func (r refusingTransport) Close() error { return nil }

// TestRefusedByTheEngine: it is asked once for a connection, which is then served by the
// transport below.
func TestRefusedByTheEngine(t *testing.T) {
	engine := refusingEngine{new(atomic.Int64), new(atomic.Int64)}
	s := newServer(t, server.WithEngine(engine))
	connect(t, start(t, s))
	if asked, wrapped := engine.asked.Load(), engine.wrapped.Load(); asked != 1 || wrapped != 0 {
		t.Errorf("the engine was asked %d times to take a connection over, want 1, and %d times to wrap it, want 0", asked, wrapped)
	}
}
