package sharedmemory_test

import (
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
)

// TestRestsGrow: trouble soon after a rest makes the next one twice as long, and
// trouble that several spinners meet at once counts once.
func TestRestsGrow(t *testing.T) {
	const ms = uint64(time.Millisecond)
	var r sharedmemory.Ration
	for _, step := range []struct{ atNs, untilNs uint64 }{
		{100 * ms, 101 * ms},
		{102 * ms, 104 * ms},
		{102*ms + ms/2, 104 * ms},
		{105 * ms, 109 * ms},
		{105 * ms, 109 * ms},
		{200 * ms, 201 * ms},
	} {
		if until := r.Displaced(step.atNs); until != step.untilNs {
			t.Errorf("displaced at %d us: rest until %d us, want %d us", step.atNs/1000, until/1000, step.untilNs/1000)
		}
	}
}
