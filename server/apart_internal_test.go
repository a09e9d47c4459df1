package server

import (
	"context"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// oneFunction returns a server of a function called one, ready to serve.
func oneFunction(t *testing.T) (*Server, *functionTable) {
	t.Helper()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Register("one", func() int64 { return 1 }); err != nil {
		t.Fatal(err)
	}
	table, err := s.prepare()
	if err != nil {
		t.Fatal(err)
	}
	return s, table
}

// TestWhoHasReturnedIsNotLate: on a busy machine a goroutine may stand still between its
// function's return and its own end, longer than a function that is cancelled is waited for.
func TestWhoHasReturnedIsNotLate(t *testing.T) {
	s, table := oneFunction(t)
	f := table.byName["one"]
	f.slots = make(chan struct{}) // who leaves stands still until somebody sends
	e := &execution{server: s, function: f, codec: wire.CodecJSON, payload: []byte("[]"), context: &callContext{function: f, origin: &contextOrigin{clock: &s.clock}}}
	time.AfterFunc(2*wire.CancelGraceMs*time.Millisecond, func() { f.slots <- struct{}{} })
	if late := e.runWithin(); late != nil {
		t.Errorf("the function has returned %s, %v, and is taken for one that still runs: %v", e.result, e.err, e.overdue())
	}
	if e.context.Err() == nil {
		t.Error("the context has not ended with its call")
	}
}

// TestEndOfTheConnectionIsNoCancelling: nobody has cancelled a call that was not started because
// the server closed its connection, so it may be made again.
func TestEndOfTheConnectionIsNoCancelling(t *testing.T) {
	s, table := oneFunction(t)
	f := table.byName["one"]
	f.slots = make(chan struct{})
	c := newConnection(&service{server: s, table: table}, &narrowCarrier{room: 1 << 10}, Peer{}, nobody())
	waits := func() error {
		e := &execution{server: s, connection: c, function: f, context: &callContext{function: f, origin: &contextOrigin{clock: &s.clock}}}
		e.cancel(context.Canceled)
		return e.enter()
	}
	for closed, want := range map[bool]status.Code{false: status.Cancelled, true: status.Unavailable} {
		c.gate.Store(closed)
		if failure := status.FromError(waits()); failure.Code != want || failure.Outcome != status.OutcomeNotExecuted {
			t.Errorf("closed %t: %v", closed, failure)
		}
	}
}
