package report

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// The tables that have charts.
const (
	crossingsTitle = "What a C call costs in Go"
	pollerTitle    = "OneShot and Persistent, by GOMAXPROCS"
)

// publishedBusy are how many of 40 processors of the scheduler spun.
var publishedBusy = []int{5, 10, 15, 20, 25, 30, 35}

// publishedCrossings are ns for an empty C function called from Go: the first call of
// a goroutine, and later ones.
var publishedCrossings = []struct {
	name, row string
	theirs    [5][7]string // mean, median, deviation, longest, least
	outliers  string
}{
	{"first call", "cgo-first", [5][7]string{
		{"2537", "2438", "2518", "2534", "2626", "2686", "2719"},
		{"2512", "2523", "2493", "2500", "2540", "2590", "2613"},
		{"201", "470", "200", "224", "346", "369", "393"},
		{"58182", "65798", "59543", "58243", "55700", "66620", "59600"},
		{"972", "870", "1011", "909", "1005", "975", "937"},
	}, "all 0.26 to 0.36 %"},
	{"first call, the function alone", "cgo-first-alone", [5][7]string{}, ""},
	{"later call", "cgo-later", [5][7]string{
		{"1123", "1126", "1137", "1172", "1250", "1283", "1313"},
		{"1086", "1076", "1080", "1086", "1099", "1117", "1123"},
		{"183", "212", "226", "300", "433", "456", "492"},
		{"68461", "73383", "53756", "49751", "50581", "47844", "86258"},
		{"391", "354", "364", "348", "313", "340", "351"},
	}, "all 0.06 to 0.16 %"},
	{"call through shared memory", "shm-call", [5][7]string{}, ""},
}

// crossingFigures are the lines of each.
var crossingFigures = []struct {
	name string
	of   func(result.Row) string
}{
	{"mean", func(r result.Row) string { return thousands(float64(r.MeanNS)) }},
	{"median", func(r result.Row) string { return thousands(float64(r.P50NS)) }},
	{"standard deviation", func(r result.Row) string { return thousands(float64(r.StdDevNS)) }},
	{"longest", func(r result.Row) string { return thousands(float64(r.MaxNS)) }},
	{"least", func(r result.Row) string { return thousands(float64(r.MinNS)) }},
	{"beyond mean + 3 deviations", func(r result.Row) string { return fmt.Sprintf("%.2f %%", 100*r.OutliersShare) }},
}

// busyHere returns how many busy processors this run has rows for, in ascending order.
func busyHere(f figures) []int {
	var busy []int
	for name := range f.rows {
		if parts := crossingRow.FindStringSubmatch(name); parts != nil {
			if n, err := strconv.Atoi(parts[2]); err == nil && !slices.Contains(busy, n) {
				busy = append(busy, n)
			}
		}
	}
	slices.Sort(busy)
	return busy
}

func crossingName(row string, busy int) string { return fmt.Sprintf("%s-busy-%d", row, busy) }

var crossingRow = regexp.MustCompile(`^(cgo-first|cgo-first-alone|cgo-later|shm-call)-busy-(\d+)$`)

func crossingsTable(f figures) table {
	t := table{
		Title: crossingsTitle,
		Notes: []string{
			"Published by an author in 2015, on a 48-core Xeon E5-2697 v2 with 40 processors of the scheduler, some of them busy: 100,000 calls of an empty function, in nanoseconds.",
			"Here as many processors are busy as this machine has and fewer. With all of them busy a caller has ten milliseconds, and then waits until the scheduler takes a processor from another.",
			"A first call is from a new goroutine on a thread that has never called before: from just before the goroutine is started, the making of a thread included where none is idle, to the function's return; and the function alone. Later calls are one after the other from one goroutine.",
			"A call through shared memory is answered by a server that has to have a CPU of the same machine, beside those that spin.",
		},
		Head: []string{"call"},
	}
	here := busyHere(f)
	for _, busy := range here {
		t.Head = append(t.Head, fmt.Sprintf("here, %d busy", busy))
	}
	for _, busy := range publishedBusy {
		t.Head = append(t.Head, fmt.Sprintf("published, %d busy", busy))
	}
	for _, p := range publishedCrossings {
		for i, figure := range crossingFigures {
			l := line{Name: p.name + ", " + figure.name}
			for _, busy := range here {
				l.Cells = append(l.Cells, f.row(crossingName(p.row, busy), "", figure.of))
			}
			for n := range publishedBusy {
				published := cell{}
				if i < len(p.theirs) {
					published.Theirs = p.theirs[i][n]
				} else if n == 0 {
					published.Theirs = p.outliers
				}
				l.Cells = append(l.Cells, published)
			}
			t.Lines = append(t.Lines, l)
		}
	}
	return t
}

// crossingCharts are the distributions of those calls.
func crossingCharts(r *result.Result) []figure {
	var of []result.Row
	for _, p := range publishedCrossings {
		for _, row := range r.Rows {
			if strings.HasPrefix(row.Name, p.row+"-busy-") {
				of = append(of, row)
			}
		}
	}
	return distributions("an empty C function in Go, and one through shared memory, with busy processors", of)
}

// Processors are the values of GOMAXPROCS that the poller's benchmarks run with.
var Processors = []int{1, 2, 4, 8, 16, 32}

// publishedPoller is ns/op of the Go runtime's integrated network poller, before it
// and after.
var publishedPoller = []struct {
	name, row     string
	before, after [6]string
}{
	{"OneShot", "oneshot", [6]string{"172994", "96581", "52615", "26351", "12258", "13200"}, [6]string{"40485", "30028", "18454", "12289", "16093", "17045"}},
	{"OneShotTimeout", "oneshot-timeout", [6]string{"124814", "99090", "51860", "26100", "12198", "13438"}, [6]string{"42932", "29040", "18455", "12073", "16654", "17143"}},
	{"Persistent", "persistent", [6]string{"115647", "58024", "24715", "16431", "2336", "1689"}, [6]string{"7782", "4808", "3674", "2407", "1875", "1637"}},
	{"PersistentTimeout", "persistent-timeout", [6]string{"79754", "57708", "26907", "15036", "2507", "1717"}, [6]string{"7859", "5952", "3823", "2567", "1903", "1627"}},
}

// pollerWays are the ways that each of them goes here.
var pollerWays = []struct {
	name, row string
	onlyStays bool // whether clients that call once cannot go this way
}{
	{"TCP, goroutines", "tcp-goroutine", false}, {"TCP, event loop", "tcp-eventloop", false},
	{"Unix socket, goroutines", "unix-goroutine", false}, {"Unix socket, event loop", "unix-eventloop", false},
	{"shared memory, goroutines", "shm-goroutine", true}, {"shared memory, event loop", "shm-eventloop", true},
}

func pollerTable(f figures) table {
	t := table{
		Title: pollerTitle,
		Notes: []string{
			"Published with the change that gave the Go runtime its integrated network poller, in 2013, for a machine that is not named, by TCP.",
			"Nanoseconds of the whole run for each exchange, many of which go on at once. OneShot connects, exchanges a little and closes; Persistent has one connection for many exchanges; Timeout sets deadlines.",
			"OneShot has no line for shared memory: a server gives it to a client that has called some times.",
		},
		Head: []string{"GOMAXPROCS"},
	}
	for _, processors := range Processors {
		t.Head = append(t.Head, strconv.Itoa(processors))
	}
	for _, p := range publishedPoller {
		t.Lines = append(t.Lines, theirs(p.name+", before", p.before[:]...), theirs(p.name+", after", p.after[:]...))
		for _, way := range pollerWays {
			if way.onlyStays && strings.HasPrefix(p.row, "oneshot") {
				continue
			}
			l := line{Name: p.name + ", " + way.name}
			for _, processors := range Processors {
				name := strings.Join([]string{p.row, way.row, strconv.Itoa(processors)}, "-")
				l.Cells = append(l.Cells, f.row(name, "", func(r result.Row) string { return thousands(1e9 / r.PerS) }))
			}
			t.Lines = append(t.Lines, l)
		}
	}
	return t
}

// publishedTables are all sets of published figures, each beside ours, but for many
// callers.
func publishedTables(f figures) []table {
	tables := append([]table{callsTable(f)}, functionTables(f)...)
	return append(tables, transportsTable(f), handoffsTable(f), residentsTable(f), crossingsTable(f), pollerTable(f))
}
