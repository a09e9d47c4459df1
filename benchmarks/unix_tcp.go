package main

import (
	"strconv"
	"time"
)

// The published comparison of Unix sockets with TCP: 500 connections with 10,000
// round trips each, of 10 bytes, which are 4 of length and 6 of payload. A round is a
// fifth of them.
const (
	transportConnections  = 500
	transportPayloadBytes = 6
	transportCallsPerMS   = 5 // of each connection, for a round's length
	// A million round trips take about this, on two CPUs.
	transportTurn = 8 * time.Second
)

var transportPace = pace{rounds: 5, length: 400 * time.Millisecond, warmUp: 20 * time.Millisecond}

// unixAgainstTCP is the same round trips over both, bare and as calls of functions.
// The kernel's work is counted.
func (t tools) unixAgainstTCP() group {
	return group{name: "transport", onlyFull: &transportPace, rows: []rowPlan{
		t.transportRow("transport-unix", goServer, "", "bare"),
		t.transportRow("transport-tcp", goServerTCP, "", "bare"),
		t.transportRow("transport-nearcall-unix", testServer, bySocket, "each"),
		t.transportRow("transport-nearcall-tcp", testServerTCP, "", "each"),
	}}
}

func (t tools) transportRow(name string, server serverPlan, by route, mode string) rowPlan {
	row := plan(name+"-"+strconv.Itoa(transportConnections), transportPayloadBytes, server, by, t.golang(mode))
	row.callers, row.counted, row.about = transportConnections, true, transportTurn
	row.arguments = []string{strconv.Itoa(transportConnections), strconv.Itoa(transportCallsPerMS)}
	return row
}
