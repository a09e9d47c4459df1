package server

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
)

// A narrowCarrier takes so many bytes at once, the others when it is waited for, or none
// where it is overdue. It notes the write deadlines that are set.
type narrowCarrier struct {
	net.Conn
	room      int
	overdue   bool
	written   []byte
	deadlines []bool // whether one was set or lifted
	closed    bool
}

func (c *narrowCarrier) Certainty() transport.Certainty { return transport.TakenOnly }

func (c *narrowCarrier) Close() error {
	c.closed = true
	return nil
}

func (c *narrowCarrier) SetWriteDeadline(deadline time.Time) error {
	c.deadlines = append(c.deadlines, !deadline.IsZero())
	return nil
}

func (c *narrowCarrier) WriteNow(b []byte) (int, error) {
	taken := min(len(b), c.room)
	c.written = append(c.written, b[:taken]...)
	return taken, nil
}

func (c *narrowCarrier) Write(b []byte) (int, error) {
	if c.overdue {
		return 0, os.ErrDeadlineExceeded
	}
	c.written = append(c.written, b...)
	return len(b), nil
}

func (c *narrowCarrier) WriteBuffers(net.Buffers) (int64, error) { return 0, errors.ErrUnsupported }

func (c *narrowCarrier) Offer(take func(transport.Room) bool) error {
	for !take(c) {
	}
	return nil
}

// replyBytes is the size of what sendReply sends.
const replyBytes = wire.HeaderBytes + 2

func sendReply(o *output) {
	o.append(&wire.Header{Type: wire.Reply, CallID: 1, FunctionID: 1}, []byte("ok"), nil)
	o.flush()
}

func newOutput(t *testing.T, carrier transport.Carrier) *output {
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	o := new(output)
	o.init(carrier, &s.config, s.clock, new(atomic.Bool), new(share), s.buffers)
	return o
}

// TestWritesThatDoNotWaitSetNoDeadline: its timer would wake a server that has become idle.
func TestWritesThatDoNotWaitSetNoDeadline(t *testing.T) {
	c := &narrowCarrier{room: replyBytes}
	o := newOutput(t, c)
	for range 3 {
		sendReply(o)
	}
	if len(c.written) != 3*replyBytes || len(c.deadlines) > 0 {
		t.Errorf("%d bytes were written (of %d), with deadlines %v", len(c.written), 3*replyBytes, c.deadlines)
	}
}

// TestWritesThatWaitHaveADeadline, which later writes do without again.
func TestWritesThatWaitHaveADeadline(t *testing.T) {
	c := &narrowCarrier{room: 5}
	o := newOutput(t, c)
	sendReply(o)
	if len(c.written) != replyBytes || len(c.deadlines) != 1 || !c.deadlines[0] {
		t.Fatalf("%d bytes were written (of %d), with deadlines %v", len(c.written), replyBytes, c.deadlines)
	}
	sendReply(o) // within the one that is set
	o.renewedNs -= uint64(deadlineStep)
	c.room = replyBytes
	sendReply(o)
	if len(c.written) != 3*replyBytes || len(c.deadlines) != 2 || c.deadlines[1] {
		t.Errorf("%d bytes were written (of %d), with deadlines %v", len(c.written), 3*replyBytes, c.deadlines)
	}
	c.room, c.overdue = 0, true
	sendReply(o)
	if len(c.deadlines) != 3 || !c.deadlines[2] || !c.closed || !o.broken {
		t.Errorf("an overdue write: deadlines %v, closed %v, broken %v", c.deadlines, c.closed, o.broken)
	}
}

// TestABrokenOutputKeepsNothing: what was added would stay in memory, and nobody counts it.
func TestABrokenOutputKeepsNothing(t *testing.T) {
	c := &narrowCarrier{overdue: true}
	o := newOutput(t, c)
	sendReply(o)
	if !o.broken {
		t.Fatal("an overdue write has not broken the output")
	}
	former := len(o.pending)
	for range 100 {
		o.raw(make([]byte, outputBytesHeld))
	}
	if len(o.pending) > former {
		t.Errorf("%d bytes wait for a peer that cannot be written to", len(o.pending))
	}
}
