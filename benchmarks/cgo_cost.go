package main

import (
	"fmt"
	"strconv"
	"time"
)

// The published measurement of what a C call costs in Go had 40 processors of the
// scheduler on 48 cores, and kept 0 to 35 of them busy: there was always one free.
const (
	publishedProcessors = 40
	publishedBusyStep   = 5
	busyStepsMax        = 4 // with fewer CPUs; each takes as long as any of the published
)

// With all processors busy the scheduler lets a caller wait for ten milliseconds after
// each ten: a round has some of both.
var cgoPace = pace{rounds: 15, length: 250 * time.Millisecond, warmUp: 20 * time.Millisecond}

// busyCounts returns how many processors Go's scheduler has, and how many of
// them are kept busy in turn. The published ones need as many CPUs: with fewer, threads
// that spin take turns on a CPU, and what is measured is the kernel's scheduler and
// nothing of Go's. There it is none to all of what the machine has, in at most
// busyStepsMax steps.
func busyCounts(cpus int) (processors int, busy []int) {
	if cpus >= publishedProcessors {
		processors = publishedProcessors
		for n := 0; n < processors; n += publishedBusyStep {
			busy = append(busy, n)
		}
		return processors, busy
	}
	step := (cpus + busyStepsMax - 1) / busyStepsMax
	for n := 0; n < cpus; n += step {
		busy = append(busy, n)
	}
	return cpus, append(busy, cpus)
}

// cgoCosts are calls of an empty C function, and for comparison calls through shared
// memory, while processors spin.
func (t tools) cgoCosts() []group {
	processors, busy := busyCounts(t.processors())
	var groups []group
	for _, n := range busy {
		rows := []rowPlan{
			t.cgoRow("cgo-first", noServer, 0, "first", n),
			t.cgoRow("cgo-first-alone", noServer, 0, "first-alone", n),
			t.cgoRow("cgo-later", noServer, 0, "later", n),
			t.cgoRow("shm-call", testServer, smallBytes, "memory", n),
		}
		for i := range rows {
			rows[i].goMaxProcs = processors
		}
		groups = append(groups, group{name: fmt.Sprintf("cgo-busy-%d", n), rows: rows, onlyFull: &cgoPace, confined: onGoProcessors(processors)})
	}
	return groups
}

func (t tools) cgoRow(name string, server serverPlan, size int, mode string, busy int) rowPlan {
	row := plan(fmt.Sprintf("%s-busy-%d", name, busy), size, server, "", t.cgo(mode))
	row.arguments = []string{strconv.Itoa(busy)}
	return row
}

func (t tools) cgo(mode string) []string { return []string{t.built("cgocaller"), mode} }
