package main

import (
	"path/filepath"
	"runtime"
	"time"

	"github.com/nearcall/nearcall/benchmarks/protocol"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// Sizes of payloads in bytes. typedBytes is ack(0, 1) as MessagePack.
const (
	smallBytes = 64
	typedBytes = 3
	mebibyte   = 1 << 20
)

// socketOnly is the parameter of an address that rules shared memory out.
const socketOnly = "?shm=off"

// A route is how the calls of a row may travel.
type route string

const (
	byMemory route = ""         // shared memory is allowed
	bySocket route = socketOnly // and this is without, for ever
	// With a library: in the process itself, or in the parent.
	byItself route = "itself"
	byParent route = "parent"
	// A short connection over TCP.
	byWeb route = "web"
	// A whole run of a program.
	byRun route = "run"
	// The simple protocol.
	bySimple route = "simple"
)

// parameter is what of a route an address has.
func (r route) parameter() string {
	if r == bySocket {
		return socketOnly
	}
	return ""
}

// A rowPlan is one way to call.
type rowPlan struct {
	name   string
	peer   string // whose row it is in groups of peers; describePeers knows it
	size   int
	server serverPlan
	route  route
	// program starts a caller; the server's address and size are appended, and what
	// arguments holds.
	program   []string
	arguments []string
	command   command // what is run, with byRun
	callers   int     // calls in flight at a time; as reported
	processes int     // callers that are processes of their own, all at once
	perSecond int     // 0: as fast as it can
	// window is how long the windows are by which calls are counted, in turns that last as
	// long; 0: there are none.
	window time.Duration
	// about is how long a turn takes in a full run, where that is not a round's length; 0: it is.
	about time.Duration
	// Told by the result, where the row is about them.
	wants       protocol.Transport // how its calls have to go; Unknown: any
	mayFallBack bool               // to the socket, where memory is no gain; the result tells
	// serverNotCounted is whether the server's CPU would be that of more than the calls.
	serverNotCounted bool
	counted          bool // the kernel's work for it is counted
	engine           string
	goMaxProcs       int
	pinning          string // "": that of its group
	// notMeasured is why the row is known to have no figures; "": it has.
	notMeasured string
	// startsIn is about what its callers take to start, beyond what most take.
	startsIn time.Duration
	// cold is whether starts are measured, and not calls.
	cold bool
	// inQuick is whether a quick run has the row although it has not the whole group.
	inQuick bool
}

// plan returns a row with one caller that calls as fast as it can.
func plan(name string, size int, server serverPlan, by route, program []string) rowPlan {
	return rowPlan{
		name: name, size: size, server: server, route: by, program: program, callers: 1, processes: 1,
		wants: server.transport(by), engine: server.engine(),
	}
}

// turn is what the row's callers do in a round of that length.
func (p rowPlan) turn(length time.Duration) turn {
	t := turn{length: length, about: p.about, perSecond: p.perSecond}
	if length >= p.window {
		t.window = p.window
	}
	return t
}

// A group is the rows that take turns. What a comparison needs is in one group.
type group struct {
	name string
	rows []rowPlan
	// quick is whether a quick run has it too.
	quick bool
	// What it takes to see what the group is for, where the pace's rounds are not
	// right for it; 0: they are.
	length      time.Duration // of a round, at least
	quickLength time.Duration // and in a quick run; 0: the same
	rounds      int           // how many, in a full run
	quickRounds int           // and in a quick one
	slices      int           // so many times shorter, and more of them
	// onlyFull is its own pace; a quick run leaves it out unless it is asked for. nil: it
	// is in every run.
	onlyFull *pace
	// leftOut are rows that are not measured, as planned.
	leftOut []result.LeftOut
	// confined is where the group's processes are held; nil: nowhere.
	confined confinement
	// beside is who else has the machine; nil: nobody.
	beside *company
}

// tools are the programs that rows run, as benchmarks/run built them.
type tools struct {
	root         string
	perl, python string
	cpus         int // of the machine that is measured; 0: of this one
}

func (t tools) processors() int {
	if t.cpus > 0 {
		return t.cpus
	}
	return runtime.NumCPU()
}

func (t tools) built(name string) string { return filepath.Join(t.root, "build/benchmarks", name) }

// inQuick returns the group with the rows that a quick run has.
func (g group) inQuick() group {
	if g.quick {
		return g
	}
	rows := g.rows
	g.rows = nil
	for _, row := range rows {
		if row.inQuick {
			g.rows = append(g.rows, row)
		}
	}
	return g
}
