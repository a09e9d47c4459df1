package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nearcall/nearcall/benchmarks/peerlist"
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
	peerPrefix       = "peer-" // of rows
	heavyBytesAtOnce = 16 << 20
	peerBytesPerS    = 200 << 20 // what a slower peer carries, about
	// callsInRound is how often each caller calls in a round, at least: a rate of calls
	// that all outlast their round would be that of its end.
	callsInRound = 3
	// slowestCall is about what a peer takes for as much at once as it is given.
	slowestCall       = 2 * time.Second
	pacedPeersPerS    = 1000
	pacedPeersSuffix  = "-paced"
	coldCallerSuffix  = "-cold-caller"
	coldServerSuffix  = "-cold-server"
	notBuiltExtension = ".failed" // beside where the program would be
)

// peerGroups are all peers, with Nearcall and a bare socket beside them, by how much is
// sent and how many call; then a paced caller, and cold starts.
func (t tools) peerGroups() []group {
	var groups []group
	for _, size := range peerSizes {
		for _, callers := range peerCallers {
			groups = append(groups, t.peersCalling(size, callers))
		}
	}
	return append(groups, t.pacedPeers(), t.coldPeers())
}

func (t tools) peersCalling(size, callers int) group {
	g := group{name: "peers" + bySizeAndCallers(size, callers), onlyFull: paceOfPeers(size * callers)}
	var able []peerlist.Peer
	for _, peer := range peerlist.All() {
		if peer.BytesAtOnceMax == 0 || size*callers <= peer.BytesAtOnceMax {
			able = append(able, peer)
			continue
		}
		why := fmt.Sprintf("%d bytes at once would take it about %s", size*callers, slowCall(peer, size*callers).Round(time.Second))
		g.leftOut = append(g.leftOut, result.LeftOut{Group: g.name + ", " + peer.Name, Why: why})
	}
	g.rows = t.peerRows(able, bySizeAndCallers(size, callers), size, callers)
	if size != smallBytes || callers > 1 {
		leaveOutOfQuick(g.rows)
	}
	return g
}

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

// slowCall is the same for a peer that may be given only so much.
func slowCall(peer peerlist.Peer, bytesAtOnce int) time.Duration {
	return slowestCall * time.Duration(bytesAtOnce) / time.Duration(peer.BytesAtOnceMax)
}

func bySizeAndCallers(size, callers int) string { return fmt.Sprintf("-%d-%d", size, callers) }

// peerRows are a row for each peer, after those of Nearcall and of a bare socket.
func (t tools) peerRows(of []peerlist.Peer, suffix string, size, callers int) []rowPlan {
	rows := t.besidePeers(suffix, size, callers)
	for i := range rows {
		rows[i].about = peerCall(size * callers)
	}
	for _, peer := range of {
		row := plan(peerPrefix+peer.Name+suffix, size, serverOf(peer), "", []string{t.peerProgram(peer.Name), "call"})
		row.peer, row.callers, row.arguments = peer.Name, callers, []string{strconv.Itoa(callers)}
		row.inQuick, row.notMeasured = peer.Quick, t.whyNotBuilt(peer)
		row.startsIn, row.about = peer.StartsIn, peerCall(size*callers)
		if peer.BytesAtOnceMax > 0 {
			row.about = slowCall(peer, size*callers)
		}
		if peer.Processes() {
			row.processes, row.arguments = callers, []string{"1"}
		}
		rows = append(rows, row)
	}
	return rows
}

func (t tools) pacedPeers() group {
	rows := t.peerRows(peerlist.All(), pacedPeersSuffix, smallBytes, 1)
	leaveOutOfQuick(rows)
	for i := range rows {
		rows[i].perSecond = pacedPeersPerS
	}
	return group{name: "peers" + pacedPeersSuffix, onlyFull: &peersPace, rows: rows}
}

func (t tools) peerProgram(name string) string { return filepath.Join(t.built("peers"), name) }

func serverOf(peer peerlist.Peer) serverPlan { return serverPlan{program: peer.Server, peer: true} }

// whyNotBuilt returns what peers/build left in place of the peer's program or of its
// server's; "" when it left nothing.
func (t tools) whyNotBuilt(peer peerlist.Peer) string {
	for _, program := range []string{peer.Name, peer.Server} {
		text, err := os.ReadFile(t.peerProgram(program) + notBuiltExtension)
		if err == nil {
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			return program + " cannot be built: " + lines[len(lines)-1]
		}
	}
	return ""
}

func leaveOutOfQuick(rows []rowPlan) {
	for i := range rows {
		rows[i].inQuick = false
	}
}
