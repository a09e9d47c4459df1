package report

import (
	"fmt"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// publishedHandoffs is connect, GET, 200, close, beside ours: as its author had it, and
// what the same program does on a machine of today.
var publishedHandoffs = []struct{ way, row, theirs, today string }{
	{"to the server itself", "web-direct", "60.4 us", "329 us"},
	{"handed to it by another process", "web-handed-over", "111.1 us", "2,982 us"},
	{"through nginx as a proxy, connections to the server kept", "web-nginx-proxy", "", ""},
	{"through nginx as a proxy, a connection to the server for each", "web-nginx-proxy-plain", "", ""},
	{"floor: a program in C that does nothing else", "floor-web-direct", "", ""},
	{"floor: handed by a program in C to another", "floor-web-handed-over", "", ""},
	{"the second request of a connection, to the server itself", "web-direct-second", "", ""},
	{"the second, of one that was handed over", "web-handed-over-second", "", ""},
	{"the second, through nginx", "web-nginx-proxy-second", "", ""},
	{"each further one, to the server itself", "web-direct-kept", "", ""},
	{"each further one, of one that was handed over", "web-handed-over-kept", "", ""},
	{"each further one, through nginx", "web-nginx-proxy-kept", "", ""},
}

func handoffsTable(f figures) table {
	t := table{
		Title: "Handing connections over",
		Notes: []string{
			"Published by the author of a Go library that passes connections, in 2020, on an i7-8550U, with both ends in one process. On Windows it took 214 us and 369 us.",
			"The same program took 329 us and 2,982 us on a machine of today with 2 CPUs, because what waits in select(2) there holds a thread of the system.",
			"Here the front, the server and the client are three processes.",
			"The floors answer without looking where a connection is to go, and nobody tells them that it has arrived. nginx keeps its connections to the server unless the row says otherwise.",
		},
		Head: []string{"connect, GET, 200, close", "p50", "that program on 2 CPUs today", "p99", "per second", "CPU us, caller + servers"},
	}
	for _, p := range publishedHandoffs {
		t.Lines = append(t.Lines, line{Name: p.way, Cells: []cell{
			f.row(p.row, p.theirs, medianOf), {Theirs: p.today}, f.row(p.row, "", slowestOf), f.row(p.row, "", perSecond), f.row(p.row, "", cpuPerCall),
		}})
	}
	return t
}

// PublishedRuns are how many runs were made one after the other.
var PublishedRuns = []int{100, 1_000, 10_000}

// The ways to run a program many times.
const (
	SpawnEach      = "spawn_each"
	StartDialEach  = "start_dial_each"
	StartDialOnce  = "start_dial_once"
	DialOnce       = "dial_once"
	LaunchFromCold = "launch_from_cold"
	LaunchEach     = "launch_each"
)

// publishedResidents is ns for each run, beside ours. The last two have no
// counterpart there: what is run is a whole program, and not a call.
var publishedResidents = []struct {
	text, way string
	theirs    [3]string
}{
	{"a new process each time", SpawnEach, [3]string{"4,433,338", "5,761,057", "5,112,125"}},
	{"start the server, dial each time", StartDialEach, [3]string{"10,198,513", "1,105,874", "205,253"}},
	{"start the server, dial once", StartDialOnce, [3]string{"10,109,449", "1,026,624", "113,940"}},
	{"the server runs, dial once", DialOnce, [3]string{"101,352", "14,375", "13,312"}},
	{"the launcher each time, which starts the resident", LaunchFromCold, [3]string{}},
	{"the launcher each time, the resident runs", LaunchEach, [3]string{}},
}

// PublishedWays are those ways, in their order.
func PublishedWays() []string {
	var ways []string
	for _, row := range publishedResidents {
		ways = append(ways, row.way)
	}
	return ways
}

const residentMeasures = "runs_"

// ResidentMeasure is the name of what one way took.
func ResidentMeasure(way string, runs int) string {
	return fmt.Sprintf(residentMeasures+"%s_%d", way, runs)
}

func residentsTable(f figures) table {
	t := table{
		Title: "Spawning a command, and keeping it resident",
		Notes: []string{"Published by an author in 2022, for a machine that is not named: a program of cobra prints its flag.",
			"Figures are nanoseconds: for a whole run of the program where a process is made or the launcher is used, and for a call of its function where it is dialled.",
			"Those of this machine are the median of three turns, in which the ways follow each other. Stopping the resident of the way before is in none of them."},
		Head: []string{"a program of cobra, so often"},
	}
	for _, runs := range PublishedRuns {
		t.Head = append(t.Head, thousands(float64(runs))+" runs")
	}
	for _, p := range publishedResidents {
		l := line{Name: p.text}
		for i, runs := range PublishedRuns {
			l.Cells = append(l.Cells, f.measure(ResidentMeasure(p.way, runs), p.theirs[i], func(m result.Measure) string { return thousands(m.Value) }))
		}
		t.Lines = append(t.Lines, l)
	}
	return t
}
