package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/nearcall/nearcall/benchmarks/report"
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
	rounds    int
}

var periods = []period{
	{"100us", 10_000, 0, 0},
	{"1ms", 1_000, 0, 0},
	{"10ms", 100, 400 * time.Millisecond, 9},
}

// Rounds of groups that need longer ones: in 200 ms each of 64 processes has the
// CPU more than once, and in 700 ms a quota has run out more than once.
const (
	manyProcesses       = 16
	manyProcessesLength = 200 * time.Millisecond
	quotaLength         = 700 * time.Millisecond
	quotaRounds         = 7
)

func (t tools) groups() []group {
	groups := []group{t.small(), t.goroutines(), t.simple(), t.pipelined()}
	for _, size := range largeBytes {
		groups = append(groups, t.large(size))
	}
	for _, count := range processCounts {
		groups = append(groups, t.processes(count))
	}
	for _, period := range periods {
		groups = append(groups, t.paced(period))
	}
	oneCPU := t.both("one-cpu")
	oneCPU.confined = onOneCPU{}
	quota := t.both("half-cpu")
	quota.confined, quota.length, quota.rounds = &quotaGroup{}, quotaLength, quotaRounds
	return append(groups, oneCPU, quota)
}

// small is one call after the other, from every language.
func (t tools) small() group {
	rows := []rowPlan{
		plan("floor-c-spin", smallBytes, spinServer, "", t.c("spin")),
		plan("floor-c-socket", smallBytes, cServer, "", t.c("bare")),
		plan("floor-go-socket", smallBytes, goServer, "", t.c("bare")),
	}
	for _, language := range []struct {
		name       string
		raw, typed []string
	}{
		{"c", t.c("raw"), t.c("typed")},
		{"perl", t.perlCaller("raw"), t.perlCaller("typed")},
		{"python", t.pythonCaller("raw"), t.pythonCaller("typed")},
	} {
		shared, socket := "nearcall-"+language.name+"-shm", "nearcall-"+language.name+"-socket"
		rows = append(rows,
			plan(shared, smallBytes, testServer, byMemory, language.raw),
			plan(socket, smallBytes, testServer, bySocket, language.raw),
			plan(shared+"-typed", typedBytes, testServer, byMemory, language.typed),
			plan(socket+"-typed", typedBytes, testServer, bySocket, language.typed))
	}
	rows = append(rows,
		t.goRow("nearcall-go-shm", testServer, byMemory, "shared", 1),
		t.goRow("nearcall-go-socket", testServer, bySocket, "shared", 1))
	return group{name: "small", rows: rows}
}

// goRow is a row of the Go caller with that many goroutines.
func (t tools) goRow(name string, server serverName, by route, mode string, callers int) rowPlan {
	row := plan(name, smallBytes, server, by, t.golang(mode))
	row.callers, row.arguments = callers, []string{strconv.Itoa(callers)}
	return row
}

func (t tools) goroutines() group {
	return group{name: "goroutines", rows: []rowPlan{
		t.goRow("floor-go-64-connections", goServer, "", "bare", goroutines),
		t.goRow("nearcall-go-64-shared", testServer, bySocket, "shared", goroutines),
		t.goRow("nearcall-go-64-shared-shm", testServer, byMemory, "shared", goroutines),
	}}
}

func (t tools) simple() group {
	return group{name: "simple", rows: []rowPlan{
		plan("simple-json", smallBytes, testServer, "", t.c("simple")),
		plan("simple-json-reconnect", smallBytes, testServer, "", t.c("simple-reconnect")),
	}}
}

// pipelined is as many calls in flight as a handle of libnearcall holds.
func (t tools) pipelined() group {
	group := t.bothBy("pipelined", t.c("pipelined"))
	for i := range group.rows {
		group.rows[i].callers = pipelinedInFlight
	}
	return group
}

const pipelinedInFlight = 64

func (t tools) large(size int) group {
	return group{name: fmt.Sprintf("large-%d", size), rows: []rowPlan{
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
	if count >= manyProcesses {
		group.length = manyProcessesLength
	}
	return group
}

func (t tools) paced(p period) group {
	group := t.both("paced-" + p.name)
	group.rows = append(group.rows, plan("floor-go-socket-paced-"+p.name, smallBytes, goServer, "", t.c("bare")))
	for i := range group.rows {
		group.rows[i].perSecond = p.perSecond
	}
	group.length, group.rounds = p.length, p.rounds
	return group
}
