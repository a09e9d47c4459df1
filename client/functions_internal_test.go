package client

import (
	"testing"

	"github.com/nearcall/nearcall/internal/monotonic"
)

// A server may lack a function only for a while, because another server that runs it does.
func TestAbsenceIsForgotten(t *testing.T) {
	c := &core{clock: monotonic.New()}
	at := &connection{functions: c.functionsOf(1)}
	from := &route{client: c}
	if from.lacks(at, "reserve") {
		t.Error("lacks what nobody has asked for")
	}
	nowNs := c.clock.Ns()
	at.functions.noteAbsent("reserve", nowNs-absentNs)
	at.functions.noteAbsent("order", nowNs)
	if from.lacks(at, "reserve") || !from.lacks(at, "order") {
		t.Error("a name is not remembered for its time")
	}
	at.functions.noteAbsent("reserve", nowNs)
	if !from.lacks(at, "reserve") {
		t.Error("a name that is absent again is not remembered")
	}
}
