package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// idle is what the guide to the event loop shows of idle connections, by how many there are.
type idle struct {
	Count                 int
	EachGoroutine         string // memory of a connection
	EachLoop              string
	CallGoroutine         string // p50 and p99 of a call beside them
	CallLoop              string
	goroutines, loop      result.Row
	bothCalls, bothMemory bool
	heldMore, savedEach   float64 // bytes that the event loop has more to begin with, and less for each
}

// Idle is a line for each number of idle connections.
func (r run) Idle() (all []idle) {
	for _, count := range IdleCounts {
		i := idle{Count: count}
		before, each, held := r.idleMemory(IdleGoroutines, count)
		loopBefore, loopEach, loopHeld := r.idleMemory(IdleEventLoop, count)
		i.EachGoroutine, i.EachLoop = orNotMeasured(held, kibibytes(each)), orNotMeasured(loopHeld, kibibytes(loopEach))
		i.bothMemory, i.heldMore, i.savedEach = held && loopHeld, loopBefore-before, each-loopEach
		var called, loopCalled bool
		i.goroutines, i.CallGoroutine, called = r.idleCall(BesideIdle(IdleGoroutines, count))
		i.loop, i.CallLoop, loopCalled = r.idleCall(BesideIdle(IdleEventLoop, count))
		i.bothCalls = called && loopCalled
		all = append(all, i)
	}
	return all
}

func orNotMeasured(measured bool, text string) string {
	return where(measured, text) + where(!measured, "not measured")
}

// idleMemory is what a server held before idle connections came, and holds for each.
func (r run) idleMemory(engine string, count int) (before, each float64, known bool) {
	empty, one := r.measures[IdleEmpty(engine, count)]
	full, other := r.measures[IdleResident(engine, count)]
	return empty.Value, (full.Value - empty.Value) / float64(count), one && other
}

func (r run) idleCall(name string) (row result.Row, text string, known bool) {
	row, c := r.find(name)
	if c.Missing {
		return row, c.Absent(), false
	}
	return row, fmt.Sprintf("%s (%s)", duration(row.P50NS), duration(row.P99NS)), true
}

// IdleMemory says from how many connections on the event loop needs less memory.
func (r run) IdleMemory() string {
	most := r.Idle()[len(IdleCounts)-1]
	switch {
	case !most.bothMemory:
		return ""
	case most.savedEach <= 0:
		return fmt.Sprintf("**There the event loop won at no number of connections up to %s:** an idle connection costs as much with it.", thousands(most.Count))
	case most.heldMore <= 0:
		return fmt.Sprintf("**There the event loop needs less memory from the first connection on:** %s less for each.", kibibytes(most.savedEach))
	}
	return fmt.Sprintf("**There the event loop needs less memory from %s idle connections on:** it needs %s less for each, and %s more to begin with.",
		thousands(math.Ceil(most.heldMore/most.savedEach)), kibibytes(most.savedEach), mebibytes(most.heldMore))
}

// IdleCalls says beside how many idle connections a call takes less time with the event
// loop.
func (r run) IdleCalls() string {
	var p50, p99 []int
	for _, i := range r.Idle() {
		if !i.bothCalls {
			return ""
		}
		if i.loop.P50NS < i.goroutines.P50NS {
			p50 = append(p50, i.Count)
		}
		if i.loop.P99NS < i.goroutines.P99NS {
			p99 = append(p99, i.Count)
		}
	}
	if len(p50)+len(p99) == 0 {
		return "**Calls were never faster with the event loop:** neither p50 nor p99 was lower beside any number of idle connections."
	}
	return fmt.Sprintf("**A call beside idle connections had the lower p50 with the event loop %s, and the lower p99 %s.**", atIdleCounts(p50), atIdleCounts(p99))
}

// atIdleCounts names some of IdleCounts.
func atIdleCounts(some []int) string {
	if len(some) == 0 {
		return "at no number of them"
	}
	if slices.Equal(some, IdleCounts[len(IdleCounts)-len(some):]) {
		return fmt.Sprintf("from %s of them on", thousands(some[0]))
	}
	var names []string
	for _, count := range some {
		names = append(names, thousands(count))
	}
	return "beside " + strings.Join(names, " and ") + " of them only"
}

// FewProcessors says what a poller costs that shares few processors of Go's scheduler with
// the functions: it keeps one until the scheduler takes it away.
func (r run) FewProcessors() string {
	var parts []string
	for _, processors := range Processors[:2] {
		goroutines, c := r.find(fmt.Sprintf("persistent-unix-goroutine-%d", processors))
		loop, other := r.find(fmt.Sprintf("persistent-unix-eventloop-%d", processors))
		if !c.Missing && !other.Missing {
			parts = append(parts, fmt.Sprintf("with GOMAXPROCS=%d %s calls a second instead of %s", processors, thousands(loop.PerS), thousands(goroutines.PerS)))
		}
	}
	return strings.Join(parts, "; ")
}
