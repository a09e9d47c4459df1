package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/internal/windows"
	"github.com/nearcall/nearcall/internal/wire"
)

// largeBytes are the sizes that travel outside a slot; the last is 4 MiB, but for
// what a frame may hold beside its payload.
var largeBytes = []int{4 << 10, 64 << 10, mebibyte, wire.FrameBytesMax - wire.ExtensionBytesMax}

// processCounts are how many callers call at once.
var processCounts = []int{1, 2, 4, 16, 64}

// A period is the time from one call of a paced caller to the next.
type period struct {
	name      string
	perSecond int
	length    time.Duration // of a round, for enough calls in it
}

var periods = []period{
	{"100us", 10_000, 0},
	{"1ms", 1_000, 0},
	{"10ms", 100, 400 * time.Millisecond},
}

// What groups need that cannot do with the pace's rounds.
const (
	// A virtual CPU is moved between cores at any moment, and two of one core are
	// four times as near to each other as two of different cores. Rows that are
	// compared through memory have to follow each other closely.
	smallSlices = 3
	// In this time each of 64 processes has the CPU more than once.
	manyProcesses       = 16
	manyProcessesLength = 200 * time.Millisecond
	manyProcessesRounds = 4 // of a quick run
	// In this a caller and a server that rested are at their ease again.
	coldLength      = 300 * time.Millisecond
	coldQuickRounds = 3
	// There are many rows from Perl, and each is of thousands of calls.
	fromPerlRounds = 9
	// And in this a quota has run out more than once.
	quotaLength = 700 * time.Millisecond
	// Rows that are counted by windows, and compared with others, have rounds of this length.
	windowedLength = 2500 * time.Millisecond
	windowedRounds = 4
	windowedCount  = 4 // callers of such rows, at least
)

func (t tools) groups() []group {
	groups := []group{t.small(), t.embedded(), t.embeddedChildren(), t.fromPerl(), t.fromElsewhere(), t.goroutines(), t.simple(), t.pipelined()}
	for _, size := range largeBytes {
		groups = append(groups, t.large(size))
	}
	for _, count := range processCounts {
		groups = append(groups, t.processes(count))
	}
	for _, period := range periods {
		groups = append(groups, t.paced(period))
	}
	groups = append(groups, t.shortConnections(), t.keptConnections(), t.commands(), t.pacedCommands(), t.heavyCommands(), t.residentCalls())
	groups = append(groups, t.unixAgainstTCP(), t.besideIdle())
	groups = slices.Concat(groups, t.manyGroups(), t.cgoCosts(), t.oneShotGroups(), t.peerGroups())
	for _, c := range conditions {
		groups = append(groups, t.sustained(c))
	}
	oneCPU := t.both("one-cpu")
	oneCPU.confined = onOneCPU{}
	oneCPU.mayFallBack()
	quota := t.both("half-cpu")
	quota.confined = &quotaGroup{}
	quota.countByWindows(quotaLength)
	quota.mayFallBack()
	return append(groups, oneCPU, quota)
}

// small is one call after the other, from every language: all through memory, then
// all by the socket, each beside its floor.
func (t tools) small() group {
	rows := []rowPlan{t.spinFloor("")}
	for _, by := range []route{byMemory, bySocket} {
		for _, l := range t.languages() {
			rows = append(rows, l.raw(by, ""))
			if l.typedProgram != nil {
				rows = append(rows, l.typed(by, ""))
			}
		}
		if by == byMemory {
			rows = append(rows,
				plan("floor-c-socket", smallBytes, cServer, "", t.c("bare")),
				plan("floor-go-socket", smallBytes, goServer, "", t.c("bare")))
		}
	}
	return group{name: "small", quick: true, rows: rows, slices: smallSlices}
}

// spinFloor is the floor of shared memory; suffix ends its name.
func (t tools) spinFloor(suffix string) rowPlan {
	floor := plan("floor-c-spin"+suffix, smallBytes, spinServer, "", t.c("spin"))
	floor.pinning = "each side on a CPU of its own"
	return floor
}

// A language is one to call from.
type language struct {
	name                     string
	rawProgram, typedProgram []string // typedProgram is nil where there is none
	arguments                []string
}

func (t tools) languages() []language {
	return []language{
		{"c", t.c("raw"), t.c("typed"), nil},
		{"perl", t.perlCaller("raw"), t.perlCaller("typed"), nil},
		{"python", t.pythonCaller("raw"), t.pythonCaller("typed"), nil},
		{"go", t.golang("shared"), nil, []string{"1"}},
	}
}

// raw and typed are rows of a language, one caller each; suffix ends their names.
func (l language) raw(by route, suffix string) rowPlan {
	return l.row("", smallBytes, by, l.rawProgram, suffix)
}

func (l language) typed(by route, suffix string) rowPlan {
	return l.row("-typed", typedBytes, by, l.typedProgram, suffix)
}

func (l language) row(kind string, size int, by route, program []string, suffix string) rowPlan {
	ways := map[route]string{byMemory: "-shm", bySocket: "-socket"}
	row := plan("nearcall-"+l.name+ways[by]+kind+suffix, size, testServer, by, program)
	row.arguments = l.arguments
	return row
}

// embedded is functions in the process of the caller, or in its parent.
func (t tools) embedded() group {
	return group{name: "embed", quick: true, slices: smallSlices, rows: []rowPlan{
		plan("floor-c-cgo", 0, emptyLibrary, byItself, t.c("cgo")),
		plan("nearcall-c-embed", smallBytes, testLibrary, byItself, t.c("raw")),
		plan("nearcall-c-embed-typed", typedBytes, testLibrary, byItself, t.c("typed")),
		plan("nearcall-perl-embed", smallBytes, testLibrary, byItself, t.perlCaller("raw")),
		plan("nearcall-perl-embed-typed", typedBytes, testLibrary, byItself, t.perlCaller("typed")),
		plan("nearcall-python-embed", smallBytes, testLibrary, byItself, t.pythonCaller("raw")),
		plan("nearcall-python-embed-typed", typedBytes, testLibrary, byItself, t.pythonCaller("typed")),
		plan("nearcall-c-embed-goroutine", 0, testLibrary, byItself, t.c("goroutine")),
	}}
}

// embeddedChildren call the parent of each. Every row has a server of its own, which
// has rested since its last round: both sides have to find to two CPUs again.
func (t tools) embeddedChildren() group {
	return group{name: "embed-child", quick: true, length: coldLength, quickRounds: coldQuickRounds, rows: []rowPlan{
		plan("nearcall-c-embed-child", smallBytes, testLibrary, byParent, t.c("child-raw")),
		plan("nearcall-perl-embed-child", smallBytes, testLibrary, byParent, t.perlCaller("child-raw")),
		plan("nearcall-perl-embed-child-typed", typedBytes, testLibrary, byParent, t.perlCaller("child-typed")),
		plan("nearcall-c-embed-child-goroutine", 0, testLibrary, byParent, t.c("child-goroutine")),
	}}
}

// fromPerl is the functions of a published account, each called in every way.
func (t tools) fromPerl() group {
	var rows []rowPlan
	for _, function := range report.PublishedFunctions {
		rows = append(rows,
			plan("perl-alone-"+function, 0, noServer, "", t.perlCaller("alone-"+function)),
			plan("perl-embed-"+function, 0, testLibrary, byItself, t.perlCaller(function)),
			plan("perl-embed-child-"+function, 0, testLibrary, byParent, t.perlCaller("child-"+function)),
			plan("perl-shm-"+function, 0, testServer, byMemory, t.perlCaller(function)),
			plan("perl-socket-"+function, 0, testServer, bySocket, t.perlCaller(function)),
			plan("perl-simple-reconnect-"+function, 0, testServer, bySimple, t.perlCaller("simple-"+function)),
			// The simple protocol waits in goroutines: this is a handle for each call.
			plan("perl-reconnect-eventloop-"+function, 0, eventServer, bySocket, t.perlCaller("reconnect-"+function)))
	}
	return group{name: "from-perl", length: coldLength, rounds: fromPerlRounds, rows: rows}
}

// goRow is a row of the Go caller with that many goroutines.
func (t tools) goRow(name string, server serverPlan, by route, mode string, callers int) rowPlan {
	row := plan(name, smallBytes, server, by, t.golang(mode))
	row.callers, row.arguments = callers, []string{strconv.Itoa(callers)}
	return row
}

func (t tools) goroutines() group {
	return group{name: "goroutines", quick: true, rows: []rowPlan{
		t.goRow("floor-go-64-connections", goServer, "", "bare", goroutines),
		t.goRow("nearcall-go-64-shared", testServer, bySocket, "shared", goroutines),
		t.goRow("nearcall-go-64-shared-shm", testServer, byMemory, "shared", goroutines),
	}}
}

func (t tools) simple() group {
	return group{name: "simple", quick: true, rows: []rowPlan{
		plan("simple-json", smallBytes, testServer, bySimple, t.c("simple")),
		plan("simple-json-reconnect", smallBytes, testServer, bySimple, t.c("simple-reconnect")),
	}}
}

// pipelined is as many calls in flight as a handle of libnearcall holds.
func (t tools) pipelined() group {
	group := t.bothBy("pipelined", t.c("pipelined"))
	group.quick = true
	for i := range group.rows {
		group.rows[i].callers = pipelinedInFlight
	}
	return group
}

const pipelinedInFlight = 64

// shortConnections are connect, GET, 200, close: to the server itself, to a front that
// hands the connection to it, and to a proxy.
func (t tools) shortConnections() group {
	return group{name: "short-connections", quick: true, slices: smallSlices, rows: []rowPlan{
		plan("floor-web-direct", 0, floorDirect, byWeb, t.c("http")),
		plan("floor-web-handed-over", 0, floorHanded, byWeb, t.c("http")),
		plan("web-direct", 0, webServer, byWeb, t.c("http")),
		plan("web-handed-over", 0, frontServer, byWeb, t.c("http")),
		plan("web-nginx-proxy", 0, proxyServer, byWeb, t.c("http")),
		plan("web-nginx-proxy-plain", 0, plainProxy, byWeb, t.c("http")),
	}}
}

// keptConnections are the requests that follow the first of a connection: its second, on a
// new one each time, and all further ones.
func (t tools) keptConnections() group {
	g := group{name: "kept-connections", quick: true, slices: smallSlices}
	for _, way := range []struct {
		name string
		by   serverPlan
	}{{"web-direct", webServer}, {"web-handed-over", frontServer}, {"web-nginx-proxy", proxyServer}} {
		second := plan(way.name+"-second", 0, way.by, byWeb, t.c("http-second"))
		second.serverNotCounted = true // it is that of the first requests too
		g.rows = append(g.rows, second, plan(way.name+"-kept", 0, way.by, byWeb, t.c("http-kept")))
	}
	return g
}

func (t tools) large(size int) group {
	return group{name: fmt.Sprintf("large-%d", size), quick: true, rows: []rowPlan{
		plan("memcpy", size, noServer, "", t.c("memcpy")),
		plan("floor-c-socket", size, cServer, "", t.c("bare")),
		plan("floor-go-socket", size, goServer, "", t.c("bare")),
		plan("nearcall-c-socket", size, testServer, bySocket, t.c("raw")),
		plan("nearcall-c-shm", size, testServer, byMemory, t.c("raw")),
	}}
}

// both is the same call by memory and by the socket; suffix names group and rows.
func (t tools) both(suffix string) group { return t.bothBy(suffix, t.c("raw")) }

func (t tools) bothBy(suffix string, program []string) group {
	return group{name: suffix, rows: []rowPlan{
		plan("nearcall-c-shm-"+suffix, smallBytes, testServer, byMemory, program),
		plan("nearcall-c-socket-"+suffix, smallBytes, testServer, bySocket, program),
	}}
}

func (t tools) processes(count int) group {
	group := t.both(report.ProcessesSuffix(count))
	for i := range group.rows {
		group.rows[i].callers, group.rows[i].processes = count, count
	}
	group.quick = true
	if count >= windowedCount {
		group.countByWindows(quickPace.length)
	}
	if count >= manyProcesses {
		group.quickLength, group.quickRounds = manyProcessesLength, manyProcessesRounds
	}
	return group
}

// countByWindows lets a full run tell what callers got over time; rounds of a quick one are
// of the length that is given, and may be too short for that.
func (g *group) countByWindows(quickLength time.Duration) {
	g.length, g.rounds, g.quickLength = windowedLength, windowedRounds, quickLength
	for i := range g.rows {
		g.rows[i].window = windows.Length
	}
}

func (t tools) paced(p period) group {
	group := t.both("paced-" + p.name)
	group.rows = append(group.rows, plan("floor-go-socket-paced-"+p.name, smallBytes, goServer, "", t.c("bare")))
	for i := range group.rows {
		group.rows[i].perSecond = p.perSecond
	}
	group.length = p.length
	return group
}
