package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Go's own benchmarks of TCP (net.BenchmarkTCP4OneShot and their like), over
// Nearcall's transports: messages of this size, and so many callers for each processor of
// the scheduler.
const (
	oneShotBytes               = 512
	oneShotCallersPerProcessor = 2
)

// Processors of the scheduler, of the server as of the caller, as they were published.
var oneShotProcessors = []int{1, 2, 4, 8, 16, 32}

// There are many rows.
var oneShotPace = pace{rounds: 5, length: 150 * time.Millisecond, warmUp: 40 * time.Millisecond}

// oneShotWays are the transports, each with the servers of both engines.
var oneShotWays = []struct {
	name              string
	server, eventLoop serverName
	by                route
	wants             transport // of clients that stay
}{
	{"tcp", testServerTCP, eventServerTCP, "", transportUnknown},
	{"unix", manyServer, eventServer, bySocket, transportSocket},
	{"shm", manyServer, eventServer, byMemory, transportSharedMemory},
}

// oneShots are clients that connect, call once and close, and clients that stay; with
// a deadline for each call, and without. A server gives memory to who has called some
// times: a client that calls once has none, allowed or not.
func (t tools) oneShots(processors int) group {
	g := group{name: fmt.Sprintf("oneshot-%d", processors), onlyFull: &oneShotPace, confined: onGoProcessors(processors)}
	for _, mode := range []string{"oneshot", "oneshot-timeout", "persistent", "persistent-timeout"} {
		for _, way := range oneShotWays {
			for _, engine := range []struct {
				name, told string
				server     serverName
			}{{"goroutine", "", way.server}, {"eventloop", eventLoop, way.eventLoop}} {
				row := plan(fmt.Sprintf("%s-%s-%s-%d", mode, way.name, engine.name, processors), oneShotBytes, engine.server, way.by, t.golang(mode))
				row.engine, row.goMaxProcs, row.callers = engine.told, processors, oneShotCallersPerProcessor*processors
				row.arguments = []string{strconv.Itoa(row.callers)}
				if strings.HasPrefix(mode, "persistent") {
					row.wants = way.wants
				}
				g.rows = append(g.rows, row)
			}
		}
	}
	return g
}

func (t tools) oneShotGroups() []group {
	var groups []group
	for _, processors := range oneShotProcessors {
		groups = append(groups, t.oneShots(processors))
	}
	return groups
}
