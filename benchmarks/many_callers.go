package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/nearcall/nearcall/benchmarks/report"
)

// In a round of this length callers are forked several times where they are few.
var manyPace = pace{rounds: 5, length: 300 * time.Millisecond, warmUp: time.Millisecond}

// manyStart is how long each of them takes to be forked and to connect, about.
const manyStart = 600 * time.Microsecond

// manyCallers are processes that connect, wait for each other, and make one call
// each at the same moment.
func (t tools) manyCallers(function string, count int) group {
	return group{name: fmt.Sprintf("many-%s-%d", function, count), onlyFull: &manyPace, rows: []rowPlan{
		t.manyRow("shm", manyServer, byMemory, function, count),
		t.manyRow("socket", manyServer, bySocket, function, count),
		t.manyRow("eventloop", manyEventServer, bySocket, function, count),
		t.manyRow("shm-eventloop", manyEventServer, byMemory, function, count),
	}}
}

func (t tools) manyRow(kind string, server serverPlan, by route, function string, count int) rowPlan {
	row := plan(report.ManyName(kind, function, count), 0, server, by, []string{t.built("many")})
	row.callers, row.arguments = count, []string{function, strconv.Itoa(count)}
	row.about = time.Duration(count) * manyStart
	// Before they begin its callers connect, and call until they have memory where they
	// may: that is more work than their one call.
	row.serverNotCounted = true
	return row
}

func (t tools) manyGroups() []group {
	var groups []group
	for _, function := range report.PublishedFunctions {
		for _, count := range report.ManyCallers {
			groups = append(groups, t.manyCallers(function, count))
		}
	}
	return groups
}
