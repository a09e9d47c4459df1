package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nearcall/nearcall/benchmarks/protocol"
	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// Go's own benchmarks of TCP (net.BenchmarkTCP4OneShot and their like), over
// Nearcall's transports: messages of this size, and so many callers for each processor of
// the scheduler.
const (
	oneShotBytes               = 512
	oneShotCallersPerProcessor = 2
)

// There are many rows.
var oneShotPace = pace{rounds: 5, length: 150 * time.Millisecond, warmUp: 40 * time.Millisecond}

// oneShotWays are the transports, each with the servers of both engines.
var oneShotWays = []struct {
	name              string
	server, eventLoop serverPlan
	by                route
	onlyStays         bool // whether clients that call once cannot go this way
}{
	{"tcp", testServerTCP, eventServerTCP, "", false},
	{"unix", manyServer, eventServer, bySocket, false},
	{"shm", manyServer, eventServer, byMemory, true},
}

// oneShots are clients that connect, call once and close, and clients that stay; with
// a deadline for each call, and without.
func (t tools) oneShots(processors int) group {
	g := group{name: fmt.Sprintf("oneshot-%d", processors), onlyFull: &oneShotPace, confined: onGoProcessors(processors)}
	g.leftOut = []result.LeftOut{{Group: g.name + ", calls once through shared memory", Why: noMemoryForOneCall}}
	for _, mode := range []string{"oneshot", "oneshot-timeout", "persistent", "persistent-timeout"} {
		stays := strings.HasPrefix(mode, "persistent")
		for _, way := range oneShotWays {
			if way.onlyStays && !stays {
				continue
			}
			for _, engine := range []struct {
				name   string
				server serverPlan
			}{{"goroutine", way.server}, {"eventloop", way.eventLoop}} {
				row := plan(fmt.Sprintf("%s-%s-%s-%d", mode, way.name, engine.name, processors), oneShotBytes, engine.server, way.by, t.golang(mode))
				row.goMaxProcs, row.callers = processors, oneShotCallersPerProcessor*processors
				row.arguments = []string{strconv.Itoa(row.callers)}
				if !stays {
					row.wants = protocol.Unknown // these clients are gone when they could tell
				}
				g.rows = append(g.rows, row)
			}
		}
	}
	return g
}

const noMemoryForOneCall = "a server gives shared memory to a client that has called some times: who calls once goes by the socket, allowed or not"

func (t tools) oneShotGroups() []group {
	var groups []group
	for _, processors := range report.Processors {
		groups = append(groups, t.oneShots(processors))
	}
	return groups
}
