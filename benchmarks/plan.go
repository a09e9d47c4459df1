package main

import (
	"path/filepath"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// Sizes of payloads in bytes. typedBytes is ack(0, 1) as MessagePack.
const (
	smallBytes = 64
	typedBytes = 3
)

var largeBytes = []int{4 << 10, 64 << 10, 1 << 20}

const (
	manyCallers    = 64
	pacedPerSecond = 1000
)

// A serverName names one of the servers that rows call.
type serverName string

const (
	cServer    serverName = "C echo"
	goServer   serverName = "Go echo"
	testServer serverName = "testserver"
)

// A rowPlan is one way to call.
type rowPlan struct {
	name      string
	size      int
	callers   int
	perSecond int // 0: as fast as it can
	server    serverName
	// program starts the caller; the server's address and size are appended.
	program []string
}

// A ratioPlan compares two rows of one group.
type ratioPlan struct {
	above, below         string
	aboveSize, belowSize int
	figure               string
	goal                 *result.Goal
}

// Figures that ratios compare.
const (
	figureP50  = "p50_ns"
	figurePerS = "per_s"
)

// tools are the programs that rows run, as benchmarks/run built them.
type tools struct {
	root         string
	perl, python string
}

func (t tools) built(name string) string { return filepath.Join(t.root, "build/benchmarks", name) }

func (t tools) c(mode string) []string { return []string{t.built("caller"), mode} }

func (t tools) golang(mode string) []string { return []string{t.built("gocaller"), mode} }

func (t tools) perlCaller(mode string) []string {
	return []string{t.perl, "-Mblib=" + filepath.Join(t.root, "build/perl"), filepath.Join(t.root, "benchmarks/callers/caller.pl"), mode}
}

func (t tools) pythonCaller(mode string) []string {
	return []string{t.python, filepath.Join(t.root, "benchmarks/callers/caller.py"), mode}
}

// groups are the rows that take turns. What a ratio compares is in one group.
func (t tools) groups() [][]rowPlan {
	groups := [][]rowPlan{{
		{"floor-c-socket", smallBytes, 1, 0, cServer, t.c("bare")},
		{"floor-go-socket", smallBytes, 1, 0, goServer, t.c("bare")},
		{"nearcall-c-socket", smallBytes, 1, 0, testServer, t.c("raw")},
		{"nearcall-c-socket-typed", typedBytes, 1, 0, testServer, t.c("typed")},
		{"nearcall-perl-socket", smallBytes, 1, 0, testServer, t.perlCaller("raw")},
		{"nearcall-perl-socket-typed", typedBytes, 1, 0, testServer, t.perlCaller("typed")},
		{"nearcall-python-socket", smallBytes, 1, 0, testServer, t.pythonCaller("raw")},
		{"nearcall-python-socket-typed", typedBytes, 1, 0, testServer, t.pythonCaller("typed")},
		{"nearcall-go-socket", smallBytes, 1, 0, testServer, t.golang("shared")},
	}, {
		{"floor-go-64-connections", smallBytes, manyCallers, 0, goServer, t.golang("bare")},
		{"nearcall-go-64-shared", smallBytes, manyCallers, 0, testServer, t.golang("shared")},
	}, {
		{"simple-json", smallBytes, 1, 0, testServer, t.c("simple")},
		{"simple-json-reconnect", smallBytes, 1, 0, testServer, t.c("simple-reconnect")},
	}, {
		{"floor-go-socket-paced", smallBytes, 1, pacedPerSecond, goServer, t.c("bare")},
		{"nearcall-c-socket-paced", smallBytes, 1, pacedPerSecond, testServer, t.c("raw")},
	}}
	for _, size := range largeBytes {
		groups = append(groups, []rowPlan{
			{"floor-c-socket", size, 1, 0, cServer, t.c("bare")},
			{"floor-go-socket", size, 1, 0, goServer, t.c("bare")},
			{"nearcall-c-socket", size, 1, 0, testServer, t.c("raw")},
		})
	}
	return groups
}

// ratios are the goals, and what helps to read them.
func ratios() []ratioPlan {
	plans := []ratioPlan{
		{"nearcall-c-socket", "floor-go-socket", smallBytes, smallBytes, figureP50, result.AtMost(1.15)},
		{"nearcall-c-socket-typed", "nearcall-c-socket", typedBytes, smallBytes, figureP50, result.AtMost(1.10)},
		{"nearcall-perl-socket-typed", "nearcall-c-socket-typed", typedBytes, typedBytes, figureP50, result.AtMost(1.15)},
		{"nearcall-python-socket-typed", "nearcall-c-socket-typed", typedBytes, typedBytes, figureP50, result.AtMost(1.15)},
		{"nearcall-perl-socket", "nearcall-c-socket", smallBytes, smallBytes, figureP50, nil},
		{"nearcall-python-socket", "nearcall-c-socket", smallBytes, smallBytes, figureP50, nil},
		{"nearcall-go-64-shared", "floor-go-64-connections", smallBytes, smallBytes, figurePerS, result.AtLeast(1.5)},
		{"nearcall-c-socket-paced", "floor-go-socket-paced", smallBytes, smallBytes, figureP50, nil},
	}
	for _, size := range largeBytes {
		plans = append(plans, ratioPlan{"nearcall-c-socket", "floor-go-socket", size, size, figureP50, nil})
	}
	return plans
}
