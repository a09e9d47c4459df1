package report

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/nearcall/nearcall/internal/wire"
)

// Conditions in which calls are sustained: the groups' names, which end those of their rows.
const (
	Sustained = "sustained" // nobody has the machine beside
	Played    = "played"    // a played host takes its CPUs away
	Neighbour = "neighbour" // a neighbour burns one of them
)

// What rows and measures are made for, and their names have in them.
var (
	// PublishedFunctions are called from every language: one() is 1, ack is Ackermann's of 3
	// and 4, md5 that of "hoge" in hexadecimal.
	PublishedFunctions = []string{"one", "ack", "md5"}
	// Errands are the functions of an application, package shop, that are called from every language.
	Errands = []string{"price", "search", "session", "events", "thumbnail", "forecast"}
	// ManyCallers are how many forked callers there are at once.
	ManyCallers = []int{100, 500, 1000}
	// LargeBytes are the sizes that travel outside a slot; the last is 4 MiB, but for what a
	// frame may hold beside its payload.
	LargeBytes = []int{4 << 10, 64 << 10, 1 << 20, wire.FrameBytesMax - wire.ExtensionBytesMax}
	// ValueBytes are sizes that no frame has, up to the largest that there is.
	ValueBytes = []int{64 << 20, wire.ValueBytesMaxCeiling}
	// Processors are the values of GOMAXPROCS that the poller's benchmarks run with.
	Processors = []int{1, 2, 4, 8, 16, 32}
	// PublishedRuns are how many runs were made one after the other.
	PublishedRuns = []int{100, 1_000, 10_000}
	// IdleCounts are how many connections are idle.
	IdleCounts = []int{100, 1_000, 10_000}
)

// The ways to run a program many times. The last two have no counterpart among published
// ones: what is run is a whole program, and not a call.
const (
	SpawnEach      = "spawn_each"
	StartDialEach  = "start_dial_each"
	StartDialOnce  = "start_dial_once"
	DialOnce       = "dial_once"
	LaunchFromCold = "launch_from_cold"
	LaunchEach     = "launch_each"
)

// PublishedWays are those ways, in their order.
func PublishedWays() []string {
	return []string{SpawnEach, StartDialEach, StartDialOnce, DialOnce, LaunchFromCold, LaunchEach}
}

// ResidentMeasure is the name of what one way took.
func ResidentMeasure(way string, runs int) string { return fmt.Sprintf("runs_%s_%d", way, runs) }

// The engines that idle connections wait with, as names of rows and measures have them.
const (
	IdleGoroutines = "goroutine"
	IdleEventLoop  = "eventloop"
)

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

// ownRows are Nearcall's among all; otherRows those of others, floors among them. The
// names of a run's rows are of one kind or the other.
var (
	ownRows = regexp.MustCompile(`^(nearcall-|peer-nearcall-|(perl|python|c)-(embed|shm|socket|simple|reconnect)-|web-handed-over(-second|-kept)?$|run-.*-resident|resident-|` +
		`shm-call-|transport-nearcall-|many-|oneshot-|persistent-|simple-json|beside-idle-)`)
	otherRows = regexp.MustCompile(`^(floor-|memcpy$|peer-|web-|run-|(perl|python)-alone-|go-itself-|cgo-|transport-)`)
)

// IsOwn reports whether a row is of Nearcall; known is false for a name that is neither
// of Nearcall nor of another way.
func IsOwn(row string) (own, known bool) {
	own = ownRows.MatchString(row)
	return own, own || otherRows.MatchString(row)
}

// A Wanted is what the report shows of rows, by their names: a run whose rows are named
// otherwise would leave it empty.
type Wanted struct {
	Rows     []string
	Patterns []*regexp.Regexp // each is of some rows
}

// Wants returns the names that tables and charts look for, whatever the run.
func Wants() Wanted {
	r := runOf(nothing)
	w := Wanted{Patterns: slices.Concat([]*regexp.Regexp{peerName, busyName}, works)}
	for _, d := range r.charts {
		for _, way := range d.ways {
			if d.x == "" || d.x == overTime {
				r.asked[way.row] = true
			} else {
				w.Patterns = append(w.Patterns, way.pattern())
			}
		}
	}
	for _, reason := range reasons {
		w.Patterns = append(w.Patterns, reason.row)
	}
	w.Rows = sortedKeys(r.asked)
	return w
}
