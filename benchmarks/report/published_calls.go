package report

import (
	"fmt"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// perlAccount is where the published figures of this file come from.
const perlAccount = "Published by a company that calls Go from a forking Perl server, in 2024, on a Xeon W-11955M."

// PublishedFunctions are the functions of that account: one() is 1, ack is
// Ackermann's of 3 and 4, md5 that of "hoge" in hexadecimal.
var PublishedFunctions = []string{"one", "ack", "md5"}

const goItself = "go-itself"

// publishedWays are its ways of calling, beside the rows that are their counterparts
// here. An empty cell was not published.
var publishedWays = []struct {
	way    string
	row    string // its name ends with that of the function
	theirs [3]string
}{
	{"Go calling itself", goItself, [3]string{"0.22 ns", "31.1 us", "128 ns"}},
	{"Perl itself", "perl-alone", [3]string{"", "883/s", "5,938,536/s"}},
	{"Go library in the Perl process", "perl-embed", [3]string{"8,025,350/s", "32,787/s", "2,022,398/s"}},
	{"forked child, to its parent", "perl-embed-child", [3]string{"11,508/s", "8,080/s", "11,355/s"}},
	{"another process, shared memory", "perl-shm", [3]string{}},
	{"another process, socket", "perl-socket", [3]string{}},
	{"another process, JSON, a connection per call", "perl-simple-reconnect", [3]string{"11,525/s", "7,435/s", "11,503/s"}},
	{"the same to an event loop; here Nearcall's protocol, a handle per call", "perl-reconnect-eventloop", [3]string{"9,142/s", "7,124/s", "9,389/s"}},
}

// callNotes are about the tables of these functions.
var callNotes = []string{perlAccount, "Times and rates are given as they were there: one() returns 1, ack is Ackermann's function, and md5 is the digest of a short text in hexadecimal.",
	"Where Go calls itself, ten thousand calls of one() or md5 are timed together, because each takes no longer than reading the clock; where Perl and Python call themselves, a thousand are. " +
		"The compiler leaves the call of one() out, as it did in the published figures; the row go-itself-called has a call that it may not leave out.",
	"In a forked child the company's library hangs as soon as a function needs a goroutine, so it connects to its parent by a socket, anew for each call. " +
		"That way is not measured again here: in its place stands Nearcall's own row, whose handle finds the parent by itself, through shared memory."}

// callsTable is calling Go from Perl, by rates as they were published.
func callsTable(f figures) table {
	t := table{Title: "Calling Go from Perl", Notes: callNotes, Head: []string{"calling Go from Perl", "one()", "ack(3, 4)", "md5"}}
	for _, way := range publishedWays {
		l := line{Name: way.way}
		for i, function := range PublishedFunctions {
			says := func(r result.Row) string { return perSecond(r) + "/s" }
			if way.row == goItself { // published as a time
				says = medianOfEach
			}
			l.Cells = append(l.Cells, f.row(way.row+"-"+function, way.theirs[i], says))
		}
		t.Lines = append(t.Lines, l)
	}
	return t
}

// otherWays are the same functions by ways that were not published.
var otherWays = []struct{ way, row string }{
	{"Perl: another process, JSON, one connection", "perl-simple"},
	{"Python: Python itself", "python-alone"},
	{"Python: Go library in the process", "python-embed"},
	{"Python: forked child, to its parent", "python-embed-child"},
	{"Python: another process, shared memory", "python-shm"},
	{"Python: another process, socket", "python-socket"},
	{"Python: another process, JSON, one connection", "python-simple"},
	{"Python: another process, JSON, a connection per call", "python-simple-reconnect"},
	{"C: Go library in the process", "c-embed"},
	{"C functions, called from Go by cgo", "cgo-out"},
}

// functionNames are the functions as tables have them.
var functionNames = map[string]string{"one": "one()", "ack": "ack(3, 4)", "md5": "md5"}

// callFigures are the columns of a way to call.
var (
	callHeads   = []string{"p50", "p99", "per second", "CPU us per call, caller + server"}
	callFigures = []func(result.Row) string{medianOfEach, slowestOfEach, perSecond, cpuPerCall}
)

// functionTables are all figures of every way to call, by functions.
func functionTables(f figures) []table {
	var all []table
	for _, function := range PublishedFunctions {
		t := table{Title: "Calling " + functionNames[function] + ", by every way", Head: append([]string{"way"}, callHeads...)}
		for _, way := range publishedWays {
			name := way.way
			if strings.HasPrefix(way.row, "perl-") {
				name = "Perl: " + name
			}
			t.Lines = append(t.Lines, line{Name: name, Cells: f.cells(way.row+"-"+function, callFigures...)})
		}
		for _, way := range otherWays {
			t.Lines = append(t.Lines, line{Name: way.way, Cells: f.cells(way.row+"-"+function, callFigures...)})
		}
		all = append(all, t)
	}
	return all
}

// publishedCallers are minimum, mean, maximum, p95 and standard deviation in
// microseconds, for 100, 500 and 1000 callers.
var publishedCallers = []struct {
	server, function string
	theirs           [3]string
}{
	{"socket", "md5", [3]string{"272 / 2193 / 14618 / 8421 / 2647", "213 / 949 / 4536 / 1854 / 577", "207 / 1019 / 6189 / 2871 / 864"}},
	{"eventloop", "md5", [3]string{"274 / 2035 / 9475 / 7568 / 2148", "212 / 1111 / 7914 / 2460 / 984", "194 / 890 / 4695 / 1791 / 500"}},
	{"shm", "md5", [3]string{}},
	{"shm-eventloop", "md5", [3]string{}},
	{"socket", "ack", [3]string{"298 / 1392 / 6515 / 2897 / 1010", "249 / 1314 / 10154 / 3544 / 1315", "253 / 1245 / 10133 / 3854 / 1162"}},
	{"eventloop", "ack", [3]string{"273 / 1507 / 4077 / 3723 / 970", "252 / 1119 / 5777 / 2064 / 741", "236 / 1038 / 7544 / 1996 / 729"}},
	{"shm", "ack", [3]string{}},
	{"shm-eventloop", "ack", [3]string{}},
	{"socket", "one", [3]string{"236 / 1477 / 7669 / 3558 / 1270", "205 / 1111 / 7069 / 3000 / 995", "216 / 943 / 6026 / 1994 / 688"}},
	{"eventloop", "one", [3]string{"295 / 1392 / 3681 / 2757 / 840", "190 / 1039 / 6561 / 2096 / 801", "180 / 928 / 5766 / 1839 / 589"}},
	{"shm", "one", [3]string{}},
	{"shm-eventloop", "one", [3]string{}},
}

// ManyCallers are how many forked callers there are at once.
var ManyCallers = []int{100, 500, 1000}

var serverNames = map[string]string{"socket": "socket, goroutines", "eventloop": "socket, event loop", "shm": "shared memory, goroutines", "shm-eventloop": "shared memory, event loop"}

// ManyName is the row of that many forked callers.
func ManyName(server, function string, callers int) string {
	return fmt.Sprintf("many-%s-%s-%d", server, function, callers)
}

// callersFigures are the figures of many callers, as they were published.
var callersFigures = []rowColumn{
	{"least", func(r result.Row) string { return microseconds(r.MinNS) }},
	{"mean", func(r result.Row) string { return microseconds(r.MeanNS) }},
	{"longest", func(r result.Row) string { return microseconds(r.MaxNS) }},
	{"p95", func(r result.Row) string { return microseconds(r.P95NS) }},
	{"deviation", func(r result.Row) string { return microseconds(r.StdDevNS) }},
}

// callersTables are many callers, by how many.
func callersTables(f figures) []table {
	var all []table
	for i, callers := range ManyCallers {
		t := table{
			Title: fmt.Sprintf("%s forked callers at once", thousands(float64(callers))),
			Notes: []string{perlAccount, "In microseconds. Published: one call from each, over a new connection.",
				"Here all connect beforehand and wait for each other, and a sample begins when its process has been woken: what it takes to connect, and until a CPU is free, is in no sample."},
			Head: []string{"function, server"},
		}
		for _, column := range callersFigures {
			t.Head = append(t.Head, column.head)
		}
		for _, p := range publishedCallers {
			l := line{Name: functionNames[p.function] + ", " + serverNames[p.server]}
			l.Cells = f.beside(ManyName(p.server, p.function, callers), strings.Split(p.theirs[i], " / "), callersFigures)
			t.Lines = append(t.Lines, l)
		}
		all = append(all, t)
	}
	return all
}
