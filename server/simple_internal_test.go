package server

import (
	"context"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
)

// slowSimple returns the reader of a connection that speaks the simple protocol. It has
// begun a call from which another goroutine has taken the role.
func slowSimple(t *testing.T) *reader {
	t.Helper()
	s, table := oneFunction(t)
	c := newConnection(&service{server: s, table: table}, &narrowCarrier{room: 1 << 10}, Peer{}, nobody())
	c.agreed.frameBytesMax = wire.FrameBytesMax
	e := &c.reader.inline
	e.function, e.late, e.result = table.byName["one"], make(chan struct{}), []byte("1")
	e.expiryNs = s.clock.Ns() + uint64(7*24*time.Hour)
	e.mark = c.role.begin(time.Hour)
	if !c.role.take(e.mark) {
		t.Fatal("the role cannot be taken")
	}
	c.calls.mu.Lock()
	c.calls.adoptLocked(e)
	c.calls.mu.Unlock()
	t.Cleanup(c.role.stop)
	return c.reader
}

// A parentContext counts the contexts that wait for its end.
type parentContext struct {
	context.Context
	done     chan struct{}
	children int
}

func (p *parentContext) Done() <-chan struct{} { return p.done }

// AfterFunc is what package context calls for a parent that is not its own.
func (p *parentContext) AfterFunc(func()) (stop func() bool) {
	p.children++
	return func() bool { p.children--; return true }
}

// TestWaitingForASlowCallLeavesNothing: a caller may set the deadline to weeks, and as long as
// that a timer would stay.
func TestWaitingForASlowCallLeavesNothing(t *testing.T) {
	r := slowSimple(t)
	e, line := &r.inline, &parentContext{Context: context.Background(), done: make(chan struct{})}
	close(e.late)
	r.connection.awaitSimple(line, e)
	if written := string(r.connection.carrier.(*narrowCarrier).written[simpleHeaderBytes:]); written != `{"ok":true,"r":1}` {
		t.Errorf("the answer is %s", written)
	}
	if line.children != 0 {
		t.Errorf("%d contexts wait for the end of the connection, or for their deadlines", line.children)
	}
}

// TestAReturnIsToldBeforeTheContextEnds: a goroutine that is held up behind the end of its
// call's context would be taken for a function that was cancelled and goes on.
func TestAReturnIsToldBeforeTheContextEnds(t *testing.T) {
	r := slowSimple(t)
	e := &r.inline
	e.context = &callContext{origin: &r.connection.origin}
	inTime := make(chan bool, 1)
	go func() { inTime <- returnsWithin(e.context, e.late) }()
	e.context.full() // so that whoever ends the context wakes that goroutine
	r.connection.calls.mu.Lock()
	time.AfterFunc(2*wire.CancelGraceMs*time.Millisecond, r.connection.calls.mu.Unlock)
	if r.finishSimple() {
		t.Fatal("the goroutine takes itself for the reader")
	}
	if !<-inTime {
		t.Error("the function has returned, and is taken for one that was cancelled and still runs")
	}
	if e.context.Err() == nil {
		t.Error("the context has not ended with its call")
	}
}
