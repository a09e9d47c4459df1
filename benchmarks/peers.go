package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nearcall/nearcall/benchmarks/peerlist"
	"github.com/nearcall/nearcall/benchmarks/protocol"
	"github.com/nearcall/nearcall/benchmarks/result"
)

var (
	peerSizes   = []int{smallBytes, 4 << 10, 64 << 10, mebibyte}
	peerCallers = []int{1, 16, 64}

	peersPace = pace{rounds: 6, length: 200 * time.Millisecond, warmUp: 100 * time.Millisecond}
	// Fewer and longer: a call of so much takes as long as a round of others.
	heavyPeersPace = pace{rounds: 3, length: 200 * time.Millisecond, warmUp: 50 * time.Millisecond}
	coldPeersPace  = pace{rounds: 5, length: 150 * time.Millisecond, warmUp: time.Millisecond}
)

const (
	heavyBytesAtOnce = 16 << 20
	peerBytesPerS    = 200 << 20 // what a slower peer carries, about
	// callsInRound is how often each caller calls in a round, at least: a rate of calls
	// that all outlast their round would be that of its end.
	callsInRound = 3
	// slowestCall is about what a peer takes for as much at once as it is given.
	slowestCall    = 2 * time.Second
	pacedPeersPerS = 1000
)

// A peerWay is one way to call that the groups of peers have: a peer's, or one of those that
// stand beside them.
type peerWay struct {
	name        string
	server      serverPlan
	route       route
	program     []string // one that calls; the server's address, the size and arguments follow
	arguments   func(callers int) []string
	processes   bool // whether each caller is one
	quick       bool
	bytesMax    int // at once; 0: any
	startsIn    func(size, callers int) time.Duration
	hosts       bool // whether it starts its server, when it is given "start:{path}"
	notMeasured string
}

// peerWays are all that call when their programs run, or that are started: what stands beside
// the peers comes first.
func (t tools) peerWays(cold bool) (all []peerWay) {
	for _, b := range allBeside() {
		if b.cold == cold {
			all = append(all, t.besideWay(b))
		}
	}
	for _, peer := range peerlist.All() {
		all = append(all, peerWay{
			name: peer.Name, server: serverPlan{program: peer.Server, peer: true}, program: []string{t.peerProgram(peer.Name), "call"},
			arguments: inOneProcess, processes: peer.Processes(), quick: peer.Quick, bytesMax: peer.BytesAtOnceMax,
			startsIn: func(int, int) time.Duration { return peer.StartsIn }, hosts: peer.Hosts, notMeasured: t.whyNotBuilt(peer),
		})
	}
	return all
}

// inOneProcess tells a caller how many it is.
func inOneProcess(callers int) []string { return []string{strconv.Itoa(callers)} }

func (t tools) peerProgram(name string) string { return filepath.Join(t.built("peers"), name) }

// whyNotBuilt returns what peers/build left in place of the peer's program or of its
// server's; "" when it left nothing.
func (t tools) whyNotBuilt(peer peerlist.Peer) string {
	for _, program := range []string{peer.Name, peer.Server} {
		text, err := os.ReadFile(t.peerProgram(program) + ".failed")
		if err == nil {
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			return program + " cannot be built: " + lines[len(lines)-1]
		}
	}
	return ""
}

// peerGroups are all peers, with Nearcall and a bare socket beside them, by how much is
// sent and how many call; then a paced caller, and cold starts.
func (t tools) peerGroups() []group {
	var groups []group
	for _, size := range peerSizes {
		for _, callers := range peerCallers {
			groups = append(groups, t.peersCalling(size, callers))
		}
	}
	paced, cold := group{name: "peers-paced", onlyFull: &peersPace}, group{name: "peers-cold", onlyFull: &coldPeersPace}
	for _, w := range t.peerWays(false) {
		row := w.calling("-paced", smallBytes, 1)
		row.perSecond = pacedPeersPerS
		paced.rows = append(paced.rows, row)
	}
	for _, w := range t.peerWays(true) {
		cold.rows = append(cold.rows, t.starting(w)...)
	}
	return append(groups, paced, cold)
}

func (t tools) peersCalling(size, callers int) group {
	suffix, atOnce := fmt.Sprintf("-%d-%d", size, callers), size*callers
	g := group{name: "peers" + suffix, onlyFull: paceOfPeers(atOnce)}
	for _, w := range t.peerWays(false) {
		if w.bytesMax > 0 && atOnce > w.bytesMax {
			why := fmt.Sprintf("%d bytes at once would take it about %s", atOnce, w.call(atOnce).Round(time.Second))
			g.leftOut = append(g.leftOut, result.LeftOut{Group: g.name + ", " + w.name, Why: why})
			continue
		}
		row := w.calling(suffix, size, callers)
		row.inQuick = w.quick && atOnce == smallBytes
		g.rows = append(g.rows, row)
	}
	return g
}

// paceOfPeers returns that of a group whose callers send so much at the same time.
func paceOfPeers(bytesAtOnce int) *pace {
	if bytesAtOnce < heavyBytesAtOnce {
		return &peersPace
	}
	own := heavyPeersPace
	own.length = max(own.length, callsInRound*peerWay{}.call(bytesAtOnce))
	return &own
}

// call is about how long a call takes when callers send so much at the same time.
func (w peerWay) call(bytesAtOnce int) time.Duration {
	if w.bytesMax > 0 {
		return slowestCall * time.Duration(bytesAtOnce) / time.Duration(w.bytesMax)
	}
	return time.Duration(bytesAtOnce) * time.Second / peerBytesPerS
}

// plan is a row of the way.
func (w peerWay) plan(suffix string, size int, server serverPlan, by route, program []string) rowPlan {
	row := plan("peer-"+w.name+suffix, size, server, by, program)
	row.peer, row.notMeasured = w.name, w.notMeasured
	return row
}

// calling is the row of callers that are connected.
func (w peerWay) calling(suffix string, size, callers int) rowPlan {
	row := w.plan(suffix, size, w.server, w.route, w.program)
	row.callers, row.about, row.startsIn = callers, w.call(size*callers), w.startsIn(size, callers)
	if w.processes {
		row.processes, callers = callers, 1
	}
	row.arguments = w.arguments(callers)
	return row
}

// starting are the rows of starts: of a caller with the server running, and of both.
func (t tools) starting(w peerWay) []rowPlan {
	caller := slices.Concat(w.program, []string{"{address}" + w.route.parameter(), strconv.Itoa(smallBytes)}, w.arguments(1))
	row := func(suffix string, server serverPlan, mode string, arguments []string) rowPlan {
		row := w.plan(suffix, smallBytes, server, byMemory, []string{t.built("coldcaller"), mode})
		row.arguments, row.startsIn = arguments, w.startsIn(0, 1)
		row.about = row.startsIn
		row.wants = protocol.Unknown // a caller ends without telling
		return row
	}
	running := row("-cold-caller", w.server, "caller", caller)
	mode, words := "server", slices.Concat(caller, []string{"--"}, t.command(w.server, "{path}"))
	if w.hosts {
		mode, words = "host", caller
	}
	both := row("-cold-server", noServer, mode, words)
	both.serverNotCounted = true // the caller started it, and counts it as its own
	return []rowPlan{running, both}
}
