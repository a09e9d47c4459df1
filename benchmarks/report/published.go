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
