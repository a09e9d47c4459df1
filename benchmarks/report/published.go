package report

import (
	"fmt"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// PublishedFunctions are the functions of the published account: one() is 1, ack is
// Ackermann's of 3 and 4, md5 that of "hoge" in hexadecimal.
var PublishedFunctions = []string{"one", "ack", "md5"}

// published is what a company wrote in 2024 about calling Go from Perl (a Xeon
// W-11955M), beside the rows that are its counterparts here. An empty cell was not
// published.
var published = []struct {
	way    string
	row    string // its name ends with that of the function
	theirs [3]string
}{
	{"Go calling itself", "go-itself", [3]string{"0.22 ns", "31.1 us", "128 ns"}},
	{"Perl itself", "perl-alone", [3]string{"", "883/s", "5,938,536/s"}},
	{"Go library in the Perl process", "perl-embed", [3]string{"8,025,350/s", "32,787/s", "2,022,398/s"}},
	{"forked child, the same handle", "perl-embed-child", [3]string{"hangs", "hangs", "hangs"}},
	{"another process, shared memory", "perl-shm", [3]string{}},
	{"another process, socket", "perl-socket", [3]string{}},
	{"another process, JSON, a connection per call", "perl-simple-reconnect", [3]string{"11,525/s", "7,435/s", "11,503/s"}},
}

// hasPublished reports whether the rows beside the published ones were measured.
func hasPublished(r *result.Result) bool { return here(r, "perl-embed", "one") != "" }

// publishedTable is the published table with this machine's rows, as Markdown.
func publishedTable(r *result.Result) string {
	var out strings.Builder
	out.WriteString("*Published*: what a company wrote in 2024, on a Xeon W-11955M; times and rates as there.\n\n")
	out.WriteString("| calling Go from Perl | one() here | published | ack(3, 4) here | published | md5 here | published |\n|---|---:|---:|---:|---:|---:|---:|\n")
	for _, way := range published {
		fmt.Fprintf(&out, "| %s |", way.way)
		for i, function := range PublishedFunctions {
			fmt.Fprintf(&out, " %s | %s |", here(r, way.row, function), way.theirs[i])
		}
		out.WriteString("\n")
	}
	return out.String()
}

// here is what this machine did, "" when there is no such row.
func here(r *result.Result, row, function string) string {
	name := row + "-" + function
	for _, measured := range r.Rows {
		if measured.Name == name {
			return thousands(measured.PerS) + "/s"
		}
	}
	for _, measure := range r.Measures {
		if measure.Name == strings.ReplaceAll(name, "-", "_") {
			return number(measure.Value) + " " + measure.Unit
		}
	}
	return ""
}

// publishedHandoffs is what the author of a Go library for passing connections
// published in 2020 (an i7-8550U, Linux, all in one process), beside ours (front and
// server in two processes, the client in a third): connect, GET, 200, close.
var publishedHandoffs = []struct{ way, row, theirs string }{
	{"to the server itself", "web-direct", "60.4 us"},
	{"handed to it by another process", "web-handed-over", "111.1 us"},
	{"through nginx as a proxy, connections to the server kept", "web-nginx-proxy", ""},
	{"through nginx as a proxy, a connection to the server for each", "web-nginx-proxy-plain", ""},
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

// publishedResidents is what an author published in 2022 about a program of cobra that
// prints its flag, in ns for each run, beside ours. The last two have no
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

// ResidentMeasure is the name of what one way took.
func ResidentMeasure(way string, runs int) string { return fmt.Sprintf("runs_%s_%d", way, runs) }

// residentsTable is that as Markdown; empty where it was not measured.
func residentsTable(r *result.Result) string {
	var out strings.Builder
	for _, row := range publishedResidents {
		var cells strings.Builder
		for i, runs := range PublishedRuns {
			if i == 0 && measured(r, ResidentMeasure(row.way, runs)) == "" {
				return ""
			}
			fmt.Fprintf(&cells, " %s | %s |", measured(r, ResidentMeasure(row.way, runs)), row.theirs[i])
		}
		fmt.Fprintf(&out, "| %s |%s\n", row.text, &cells)
	}
	return "| running a program of cobra | 100 runs here | published | 1,000 here | published | 10,000 here | published |\n|---|---:|---:|---:|---:|---:|---:|\n" + out.String()
}

// measured is a measure's value, "" when there is no such one.
func measured(r *result.Result, name string) string {
	for _, measure := range r.Measures {
		if measure.Name == name {
			return thousands(measure.Value)
		}
	}
	return ""
}

// handoffsTable is that as Markdown; empty where it was not measured.
func handoffsTable(r *result.Result) string {
	var out strings.Builder
	for _, way := range publishedHandoffs {
		for _, row := range r.Rows {
			if row.Name == way.row {
				fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", way.way, microseconds(row.P50NS), thousands(row.PerS), way.theirs)
			}
		}
	}
	if out.Len() == 0 {
		return ""
	}
	return "| connect, GET, 200, close | p50 here | per second | published |\n|---|---:|---:|---:|\n" + out.String() + "\n"
}
