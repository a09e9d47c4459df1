package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// The engines that idle connections wait with, as names of rows and measures have them.
const (
	IdleGoroutines = "goroutine"
	IdleEventLoop  = "eventloop"
)

// IdleCounts are how many connections are idle.
var IdleCounts = []int{100, 1_000, 10_000}

// IdleEmpty names what a server holds that has one connection, measured just before
// count more were opened.
func IdleEmpty(engine string, count int) string {
	return fmt.Sprintf("idle_engines_%s_before_%d", engine, count)
}

// IdleResident names what it holds with them.
func IdleResident(engine string, count int) string {
	return fmt.Sprintf("idle_engines_%s_%d", engine, count)
}

// BesideIdle names the row of one caller beside so many idle connections.
func BesideIdle(engine string, count int) string {
	return fmt.Sprintf("beside-idle-%s-%d", engine, count)
}

// eventLoopFigures is the guide's table and what follows from it.
func eventLoopFigures(r *result.Result) string {
	f := figuresOf(r)
	var out strings.Builder
	fmt.Fprintf(&out, "Measured on %s: %s, %d CPUs, kernel %s. The memory is all that the server holds, without what it holds with one\n"+
		"connection; a call is of 64 bytes over a Unix socket, from one C process that calls without a pause.\n\n",
		r.Date.Format(time.DateOnly), r.Machine.CPU, r.Machine.CPUs, r.Machine.Kernel)
	out.WriteString("| idle connections | an idle connection: goroutine | event loop | a call beside them, p50 (p99): goroutine | event loop |\n|---:|---:|---:|---:|---:|\n")
	for _, count := range IdleCounts {
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", thousands(float64(count)),
			f.idleEach(IdleGoroutines, count), f.idleEach(IdleEventLoop, count), f.besideIdle(IdleGoroutines, count), f.besideIdle(IdleEventLoop, count))
	}
	for _, sentence := range []string{f.whenItWins(), f.whenCallsAreFaster(), f.onFewProcessors()} {
		if sentence != "" {
			fmt.Fprintf(&out, "\n%s\n", sentence)
		}
	}
	return out.String()
}

const notThere = "not measured"

// idle returns what a server held before and after idle connections came.
func (f figures) idle(engine string, count int) (before, after float64, known bool) {
	empty, one := f.measures[IdleEmpty(engine, count)]
	full, other := f.measures[IdleResident(engine, count)]
	return empty.Value, full.Value, one && other
}

func (f figures) idleEach(engine string, count int) string {
	before, after, known := f.idle(engine, count)
	if !known {
		return notThere
	}
	return kibibytes((after - before) / float64(count))
}

func kibibytes(value float64) string { return fmt.Sprintf("%.1f KiB", value/(1<<10)) }

func (f figures) besideIdle(engine string, count int) string {
	row, known := f.rows[BesideIdle(engine, count)]
	switch {
	case !known:
		return notThere
	case row.Failed != "":
		return "failed"
	}
	return fmt.Sprintf("%s (%s)", duration(row.P50NS), duration(row.P99NS))
}

// whenItWins says from how many connections on the event loop needs less memory.
func (f figures) whenItWins() string {
	most := IdleCounts[len(IdleCounts)-1]
	before, after, known := f.idle(IdleGoroutines, most)
	loopBefore, loopAfter, loopKnown := f.idle(IdleEventLoop, most)
	if !known || !loopKnown {
		return ""
	}
	saved := (after - before - (loopAfter - loopBefore)) / float64(most)
	more := loopBefore - before
	switch {
	case saved <= 0:
		return fmt.Sprintf("**There the event loop won at no number of connections up to %s:** an idle connection costs as much with it.", thousands(float64(most)))
	case more <= 0:
		return fmt.Sprintf("**There the event loop needs less memory from the first connection on:** %s less for each.", kibibytes(saved))
	}
	return fmt.Sprintf("**There the event loop needs less memory from %s idle connections on:** it needs %s less for each, and %s more to begin with.",
		thousands(math.Ceil(more/saved)), kibibytes(saved), mebibytes(more))
}

// whenCallsAreFaster says beside how many idle connections a call takes less time with
// the event loop.
func (f figures) whenCallsAreFaster() string {
	var p50, p99 []int
	for _, count := range IdleCounts {
		goroutines, known := f.rows[BesideIdle(IdleGoroutines, count)]
		loop, loopKnown := f.rows[BesideIdle(IdleEventLoop, count)]
		if !known || !loopKnown || goroutines.Failed+loop.Failed != "" {
			return ""
		}
		if loop.P50NS < goroutines.P50NS {
			p50 = append(p50, count)
		}
		if loop.P99NS < goroutines.P99NS {
			p99 = append(p99, count)
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
		return fmt.Sprintf("from %s of them on", thousands(float64(some[0])))
	}
	var names []string
	for _, count := range some {
		names = append(names, thousands(float64(count)))
	}
	return "beside " + strings.Join(names, " and ") + " of them only"
}

// onFewProcessors says what a poller costs that shares few processors of Go's scheduler
// with the functions: it keeps one until the scheduler takes it away.
func (f figures) onFewProcessors() string {
	var parts []string
	for _, processors := range Processors[:2] {
		goroutines, known := f.rows[persistentName("unix-goroutine", processors)]
		loop, loopKnown := f.rows[persistentName("unix-eventloop", processors)]
		if !known || !loopKnown || goroutines.Failed+loop.Failed != "" {
			continue
		}
		parts = append(parts, fmt.Sprintf("with GOMAXPROCS=%d %s calls a second instead of %s", processors, thousands(loop.PerS), thousands(goroutines.PerS)))
	}
	if len(parts) == 0 {
		return ""
	}
	return "Where Go has few processors, on both sides, busy connections over a Unix socket made this many calls by the event loop: " + strings.Join(parts, "; ") + "."
}

func persistentName(way string, processors int) string {
	return fmt.Sprintf("persistent-%s-%d", way, processors)
}
