package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/nearcall/nearcall/benchmarks/report"
)

// manyCounts are how many forked callers of the published account call at once.
var manyCounts = []int{100, 500, 1000}

// In a round of this length callers are forked several times where they are few.
var manyPace = pace{rounds: 5, length: 300 * time.Millisecond, warmUp: time.Millisecond}

// manyStart is how long each of them takes to be forked and to connect, about.
const manyStart = 600 * time.Microsecond

// manyCallers are processes that connect, wait for each other, and make one call
// each at the same moment.
func (t tools) manyCallers(function string, count int) group {
	suffix := fmt.Sprintf("%s-%d", function, count)
	rows := []rowPlan{
		t.manyRow("many-shm-"+suffix, manyServer, byMemory, function, count),
		t.manyRow("many-socket-"+suffix, manyServer, bySocket, function, count),
		t.manyRow("many-eventloop-"+suffix, eventServer, bySocket, function, count),
	}
	// Before they begin its callers call until they have memory.
	rows[0].serverNotCounted = true
	rows[2].engine = eventLoop
	return group{name: "many-" + suffix, rows: rows, onlyFull: &manyPace}
}

func (t tools) manyRow(name string, server serverName, by route, function string, count int) rowPlan {
	row := plan(name, 0, server, by, []string{t.built("many")})
	row.callers, row.arguments = count, []string{function, strconv.Itoa(count)}
	row.about = time.Duration(count) * manyStart
	return row
}

func (t tools) manyGroups() []group {
	var groups []group
	for _, function := range report.PublishedFunctions {
		for _, count := range manyCounts {
			groups = append(groups, t.manyCallers(function, count))
		}
	}
	return groups
}
