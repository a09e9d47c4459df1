package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// idleHeld is what a server holds that had one connection, and then so many idle ones.
func (r run) idleHeld(engine string, count int) (empty, each float64, c cell) {
	one, known := r.measures[IdleEmpty(engine, count)]
	all, bothKnown := r.measures[IdleResident(engine, count)]
	if !known || !bothKnown {
		return 0, 0, cell{Missing: true}
	}
	each = (all.Value - one.Value) / float64(count)
	return one.Value, each, cell{Here: kibibytes(each)}
}

// Idle is the memory of an idle connection, and what a call takes beside them, with
// goroutines and with the event loop.
func (r run) Idle() table {
	t := table{Head: "idle connections", numbered: true, Columns: []column{{Head: "an idle connection: goroutine"}, {Head: "event loop"},
		{Head: "a call beside them, p50 (p99): goroutine"}, {Head: "event loop"}}}
	for _, count := range IdleCounts {
		var memory, calls []cell
		for _, engine := range []string{IdleGoroutines, IdleEventLoop} {
			_, _, held := r.idleHeld(engine, count)
			row, call := r.find(BesideIdle(engine, count))
			if !call.Missing {
				call.Here = fmt.Sprintf("%s (%s)", duration(row.P50NS), duration(row.P99NS))
			}
			memory, calls = append(memory, held), append(calls, call)
		}
		t.Lines = append(t.Lines, line{Name: thousands(count), Cells: append(memory, calls...)})
	}
	return t
}

// IdleMemory says from how many connections on the event loop needs less memory.
func (r run) IdleMemory() string {
	most := slices.Max(IdleCounts)
	empty, each, c := r.idleHeld(IdleGoroutines, most)
	loopEmpty, loopEach, other := r.idleHeld(IdleEventLoop, most)
	saved, more := each-loopEach, loopEmpty-empty
	switch {
	case c.Missing || other.Missing:
		return ""
	case saved <= 0:
		return fmt.Sprintf("**There the event loop won at no number of connections up to %s:** an idle connection costs as much with it.", thousands(most))
	case more <= 0:
		return fmt.Sprintf("**There the event loop needs less memory from the first connection on:** %s less for each.", kibibytes(saved))
	}
	return fmt.Sprintf("**There the event loop needs less memory from %s idle connections on:** it needs %s less for each, and %s more to begin with.",
		thousands(math.Ceil(more/saved)), kibibytes(saved), mebibytes(more))
}

// IdleCalls says beside how many idle connections a call takes less time with the event
// loop.
func (r run) IdleCalls() string {
	var p50, p99 []string
	for _, count := range IdleCounts {
		goroutines, c := r.find(BesideIdle(IdleGoroutines, count))
		loop, other := r.find(BesideIdle(IdleEventLoop, count))
		if c.Missing || other.Missing {
			return ""
		}
		if loop.P50NS < goroutines.P50NS {
			p50 = append(p50, thousands(count))
		}
		if loop.P99NS < goroutines.P99NS {
			p99 = append(p99, thousands(count))
		}
	}
	if len(p50)+len(p99) == 0 {
		return "**Calls were never faster with the event loop:** neither p50 nor p99 was lower beside any number of idle connections."
	}
	beside := func(counts []string) string {
		return either(len(counts) > 0, "beside "+strings.Join(counts, " and ")+" of them", "at no number of them")
	}
	return fmt.Sprintf("**A call beside idle connections had the lower p50 with the event loop %s, and the lower p99 %s.**", beside(p50), beside(p99))
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
