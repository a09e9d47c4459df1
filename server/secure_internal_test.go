package server

import (
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
)

// An agreeingCarrier is one that has to agree on keys.
type agreeingCarrier struct {
	narrowCarrier
	agree func() error
}

func (c *agreeingCarrier) Secure(context.Context) error { return c.agree() }
func (c *agreeingCarrier) Names() []string              { return []string{"peer.example"} }

// TestStopWithinAnAgreement: a server that is closed counts and logs nothing against the peers with
// which it was agreeing on keys.
func TestStopWithinAnAgreement(t *testing.T) {
	for name, row := range map[string]struct {
		closes     bool
		err        error
		violations uint64
	}{
		"closed before the end":  {true, net.ErrClosed, 0},
		"closed at the end":      {true, nil, 0},
		"no agreement, no close": {false, io.ErrNoProgress, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := New(WithLogger(slog.New(slog.DiscardHandler)))
			if err != nil {
				t.Fatal(err)
			}
			peer := Peer{Address: "192.0.2.1:7000"}
			joined, err := s.users.join(&peer)
			if err != nil {
				t.Fatal(err)
			}
			ours, theirs := net.Pipe()
			defer theirs.Close()
			carrier := &agreeingCarrier{narrowCarrier: narrowCarrier{Conn: ours, room: 1 << 10}}
			v := &service{server: s}
			v.active.Add(1)
			c := newConnection(v, carrier, peer, joined)
			carrier.agree = func() error {
				if row.closes {
					c.close(ErrServerClosed)
				}
				return row.err
			}
			c.serve()
			if counted := s.Statistics(); counted.ViolationsTotal != row.violations || counted.Connections != 0 || !carrier.closed {
				t.Errorf("%d violations and %d connections are counted, want %d and none", counted.ViolationsTotal, counted.Connections, row.violations)
			}
		})
	}
}
