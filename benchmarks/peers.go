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
)

var (
	peersPace = pace{rounds: 5, length: 200 * time.Millisecond, warmUp: 100 * time.Millisecond}
	// Fewer and longer: a call of so much takes as long as a round of others.
	heavyPeersPace = pace{rounds: 3, length: 200 * time.Millisecond, warmUp: 50 * time.Millisecond}
)

const (
	heavyBytesAtOnce = 16 << 20
	peerBytesPerS    = 200 << 20 // what a slower peer carries, about
	// callsInRound is how often each caller calls in a round, at least: a rate of calls
	// that all outlast their round would be that of its end.
	callsInRound = 3
	// slowestCall is about what a peer takes for as much at once as it is given.
	slowestCall = 2 * time.Second
	// What a caller in Python takes to start, about, beside making its bytes; many at once
	// wait for each other.
	pythonStartsIn  = 100 * time.Millisecond
	pythonFillsByte = 150 * time.Nanosecond
)

// paceOfPeers returns that of a group whose callers send so much at the same time.
func paceOfPeers(bytesAtOnce int) *pace {
	if bytesAtOnce < heavyBytesAtOnce {
		return &peersPace
	}
	own := heavyPeersPace
	own.length = max(own.length, callsInRound*peerCall(bytesAtOnce))
	return &own
}

// peerCall is about how long a call takes when callers send so much at the same time.
func peerCall(bytesAtOnce int) time.Duration {
	return time.Duration(bytesAtOnce) * time.Second / peerBytesPerS
}

// besidePeers makes a row one that stands beside those of peers, by the name of its way.
func (t tools) besidePeers(row *rowPlan, name string) {
	row.peer, row.about = name, peerCall(row.size*row.callers)
	if row.program[0] == t.python {
		row.startsIn = time.Duration(row.processes) * (pythonStartsIn + time.Duration(row.size)*pythonFillsByte)
	}
}

// asPeer makes a row one of a peer, unless it would take too long: why says so.
func (t tools) asPeer(row *rowPlan, peer peerlist.Peer) (why string) {
	t.besidePeers(row, peer.Name)
	row.server, row.startsIn, row.notMeasured = serverPlan{program: peer.Server, peer: true}, peer.StartsIn, t.whyNotBuilt(peer)
	row.inQuick = row.inQuick && peer.Quick
	if peer.Processes() {
		row.processes, row.arguments = row.callers, []string{"1"}
	}
	if atOnce := row.size * row.callers; peer.BytesAtOnceMax > 0 {
		row.about = slowestCall * time.Duration(atOnce) / time.Duration(peer.BytesAtOnceMax)
		if atOnce > peer.BytesAtOnceMax {
			why = fmt.Sprintf("%d bytes at once would take it about %s", atOnce, row.about.Round(time.Second))
		}
	}
	return why
}

func peerNamed(name string) peerlist.Peer {
	all := peerlist.All()
	n := slices.IndexFunc(all, func(p peerlist.Peer) bool { return p.Name == name })
	if n < 0 {
		panic("rows.txt: there is no peer " + name)
	}
	return all[n]
}

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

// starting are the rows of starts: of a row's caller with its server running, and of both. A
// caller that hosts starts its server, when it is given "start:{path}".
func (t tools) starting(row rowPlan, hosts bool) []rowPlan {
	caller := slices.Concat(row.program, []string{"{address}" + row.route.parameter(), strconv.Itoa(row.size)}, row.arguments)
	both := slices.Concat(caller, []string{"--"}, t.command(row.server, "{path}"))
	mode := "server"
	if hosts {
		mode, both = "host", caller
	}
	starts := func(name, mode string, server serverPlan, arguments []string) rowPlan {
		start := row
		start.name, start.server, start.route, start.arguments = row.name+name, server, byMemory, arguments
		start.program, start.about = []string{t.built("coldcaller"), mode}, row.startsIn
		start.wants = protocol.Unknown // a caller ends without telling
		return start
	}
	rows := []rowPlan{starts("-caller", "caller", row.server, caller), starts("-server", mode, noServer, both)}
	rows[1].serverNotCounted = true // the caller started it, and counts it as its own
	return rows
}
