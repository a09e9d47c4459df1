package client_test

import (
	"net"
	"testing"

	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/inprocess"
	"github.com/nearcall/nearcall/status"
)

// A losingConn says that what it took after the hello, from one byte on, was not delivered.
type losingConn struct {
	*inprocess.Conn
	hello, after int
	known        bool
}

func (c *losingConn) Write(b []byte) (int, error) {
	if c.hello == 0 {
		c.hello = len(b)
	}
	return c.Conn.Write(b)
}

// UndeliveredFrom implements transport.Undelivered.
func (c *losingConn) UndeliveredFrom() (uint64, bool) { return uint64(c.hello + c.after), c.known }

// A request whose last byte was not delivered was not executed, if the carrier knows that.
func TestOutcomeOfWhatWasNotDelivered(t *testing.T) {
	for _, test := range []struct {
		name    string
		after   int
		known   bool
		outcome status.Outcome
	}{
		{"Nothing", 0, true, status.OutcomeNotExecuted},
		{"AllButTheLastByte", requestBytes - 1, true, status.OutcomeNotExecuted},
		{"All", requestBytes, true, status.OutcomeUnknown},
		{"NotKnown", 0, false, status.OutcomeUnknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			network := &inprocess.Network{Certainty: transport.TakenOnly}
			caller, served := network.Pair(&net.TCPAddr{})
			callOnce(t, "tcp:127.0.0.1:1", &losingConn{Conn: caller, after: test.after, known: test.known}, func() error {
				err := greet(served, requestBytes)
				served.Close()
				return err
			}, status.Unavailable, test.outcome)
		})
	}
}
