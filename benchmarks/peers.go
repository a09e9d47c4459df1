package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// A peer is a program that peers/build makes: another way to call.
type peer struct {
	name string
	// light peers start quickly and are in quick runs too.
	light bool
	// processes is whether each caller is a process; otherwise they are threads or
	// goroutines of one.
	processes bool
	// bytesAtOnceMax is how much callers may send at the same time if a round is to
	// end; 0: any.
	bytesAtOnceMax int
	// startsIn is about what a caller takes to start, where that is long.
	startsIn time.Duration
}

// peers are in the order in which reports show them.
var peers = []peer{
	{name: "netrpc", light: true},
	{name: "ttrpc", light: true},
	{name: "grpc", light: true},
	{name: "connect", light: true},
	{name: "drpc", light: true},
	{name: "thrift", light: true},
	{name: "goplugin", light: true},
	{name: "nats", light: true},
	// Its messages are encoded byte by byte: a mebibyte takes it over half a second.
	{name: "dbus", light: true, bytesAtOnceMax: mebibyte},
	{name: "zeromq", processes: true},
	{name: "nng", processes: true},
	{name: "python-grpc", startsIn: 500 * time.Millisecond},
	{name: "msgpack-rpc", startsIn: 500 * time.Millisecond},
}

var (
	peerSizes   = []int{smallBytes, 4 << 10, 64 << 10, mebibyte}
	peerCallers = []int{1, 16, 64}

	peersPace = pace{rounds: 7, length: 200 * time.Millisecond, warmUp: 100 * time.Millisecond}
	// With so much at once every round of a slow peer is longer than its length.
	heavyPeersPace = pace{rounds: 3, length: 200 * time.Millisecond, warmUp: 50 * time.Millisecond}
	coldPeersPace  = pace{rounds: 5, length: 150 * time.Millisecond, warmUp: time.Millisecond}
)

const (
	peersPrefix       = "peers-" // of groups
	peerPrefix        = "peer-"  // of their rows
	heavyBytesAtOnce  = 16 << 20
	peerBytesPerS     = 200 << 20 // what a slower peer carries, about
	pacedPeersPerS    = 1000
	pacedPeersSuffix  = "-paced"
	coldCallerSuffix  = "-cold-caller"
	coldServerSuffix  = "-cold-server"
	peerServerPrefix  = "peer "
	bareName          = "bare"
	nearcallShm       = "nearcall-go-shm"
	nearcallSocket    = "nearcall-go-socket"
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
	g := group{name: "peers" + bySizeAndCallers(size, callers), onlyFull: &peersPace}
	if size*callers >= heavyBytesAtOnce {
		g.onlyFull = &heavyPeersPace
	}
	var able []peer
	for _, peer := range peers {
		if peer.bytesAtOnceMax == 0 || size*callers <= peer.bytesAtOnceMax {
			able = append(able, peer)
			continue
		}
		why := fmt.Sprintf("%s takes too long with %d bytes at once", peer.name, size*callers)
		g.leftOut = append(g.leftOut, result.LeftOut{Group: g.name + ", " + peer.name, Why: why})
	}
	g.rows = t.peerRows(able, bySizeAndCallers(size, callers), size, callers)
	if size != smallBytes || callers > 1 {
		leaveOutOfQuick(g.rows)
	}
	return g
}

func bySizeAndCallers(size, callers int) string { return fmt.Sprintf("-%d-%d", size, callers) }

// peerRows are a row for each peer, after those of Nearcall and of a bare socket.
func (t tools) peerRows(of []peer, suffix string, size, callers int) []rowPlan {
	beside := func(name string, server serverName, by route, mode string) rowPlan {
		row := t.goRow(peerPrefix+name+suffix, server, by, mode, callers)
		row.size, row.inQuick = size, true
		return row
	}
	rows := []rowPlan{
		beside(nearcallShm, testServer, byMemory, "shared"),
		beside(nearcallSocket, testServer, bySocket, "shared"),
		beside(bareName, goServer, "", "bare"),
	}
	for _, peer := range of {
		row := plan(peerPrefix+peer.name+suffix, size, peerServerPrefix+serverName(peer.name), "", []string{t.peerProgram(peer.name), "call"})
		row.callers, row.arguments = callers, []string{strconv.Itoa(callers)}
		row.inQuick, row.notMeasured = peer.light, t.whyNotBuilt(peer.name)
		row.startsIn, row.about = peer.startsIn, time.Duration(size*callers)*time.Second/peerBytesPerS
		if peer.processes {
			row.processes, row.arguments = callers, []string{"1"}
		}
		rows = append(rows, row)
	}
	return rows
}

func (t tools) pacedPeers() group {
	rows := t.peerRows(peers, pacedPeersSuffix, smallBytes, 1)
	leaveOutOfQuick(rows)
	for i := range rows {
		rows[i].perSecond = pacedPeersPerS
	}
	return group{name: "peers" + pacedPeersSuffix, onlyFull: &peersPace, rows: rows}
}

// coldPeers are starts of a caller with the server running, and of both.
func (t tools) coldPeers() group {
	cold := t.built("coldcaller")
	var rows []rowPlan
	add := func(name string, server serverName, caller, starts []string, startsIn time.Duration) {
		running := plan(peerPrefix+name+coldCallerSuffix, smallBytes, server, byStart, []string{cold, "caller"})
		running.arguments = caller
		both := plan(peerPrefix+name+coldServerSuffix, smallBytes, noServer, "", []string{cold, "server"})
		both.arguments = append(append(caller[:len(caller):len(caller)], "--"), starts...)
		running.notMeasured = t.whyNotBuilt(name)
		both.notMeasured = running.notMeasured
		running.startsIn, running.about = startsIn, startsIn
		both.startsIn, both.about = startsIn, startsIn
		rows = append(rows, running, both)
	}
	add("nearcall-go", testServer, []string{t.built("gocaller"), "shared"}, []string{t.built("testserver"), "-address", "unix:{path}"}, 0)
	add(bareName, goServer, []string{t.built("gocaller"), "bare"}, []string{t.built("bareserver"), "{path}"}, 0)
	for _, peer := range peers {
		program := t.peerProgram(peer.name)
		add(peer.name, peerServerPrefix+serverName(peer.name), []string{program, "call"}, []string{program, "serve", "unix:{path}"}, peer.startsIn)
	}
	return group{name: "peers-cold", onlyFull: &coldPeersPace, rows: rows}
}

func (t tools) peerProgram(name string) string { return filepath.Join(t.built("peers"), name) }

// peerServer returns the command of a peer's server that is to listen there; none for
// other servers.
func (t tools) peerServer(name serverName, address string) []string {
	peer, ok := strings.CutPrefix(string(name), peerServerPrefix)
	if !ok {
		return nil
	}
	return []string{t.peerProgram(peer), "serve", address}
}

// whyNotBuilt returns what peers/build left in place of a program; "" when it left
// nothing.
func (t tools) whyNotBuilt(name string) string {
	text, err := os.ReadFile(t.peerProgram(name) + notBuiltExtension)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return "it cannot be built: " + lines[len(lines)-1]
}

func leaveOutOfQuick(rows []rowPlan) {
	for i := range rows {
		rows[i].inQuick = false
	}
}

// ofPeers are how often as long as a call of Nearcall one of each peer takes.
func ofPeers() []result.Comparison {
	suffix := bySizeAndCallers(smallBytes, 1)
	var all []result.Comparison
	for _, peer := range peers {
		if peer.light {
			all = append(all, ratio(small(peerPrefix+peer.name+suffix, result.FigureP50), small(peerPrefix+nearcallShm+suffix, result.FigureP50), nil))
		}
	}
	return all
}

// describePeers returns how those peers are set up that rows are about; those that
// were not built are left out.
func (t tools) describePeers(rows []measuredRow, nearcall string) []result.Peer {
	var described []result.Peer
	for _, row := range rows {
		if strings.HasPrefix(row.group, peersPrefix) {
			described = besidePeers(nearcall)
			break
		}
	}
	if described == nil {
		return nil
	}
	for _, peer := range peers {
		text, err := exec.Command(t.peerProgram(peer.name), "describe").Output()
		told := result.Peer{Name: peer.name}
		if err == nil && json.Unmarshal(text, &told) == nil {
			described = append(described, told)
		}
	}
	return described
}

// besidePeers are what stands beside the peers.
func besidePeers(nearcall string) []result.Peer {
	const documentation = "https://github.com/nearcall/nearcall"
	return []result.Peer{
		{Name: nearcallShm, Version: nearcall, Documentation: documentation, Language: "Go", Connections: "one for all callers",
			Configuration: "package client and server, raw bytes called by name; Unix socket, shared memory allowed; all callers share one client"},
		{Name: nearcallSocket, Version: nearcall, Documentation: documentation, Language: "Go", Connections: "one for all callers",
			Configuration: "the same with ?shm=off"},
		{Name: bareName, Documentation: "https://pkg.go.dev/net", Language: "Go", Connections: "one each",
			Configuration: "Unix socket, a 4-byte length before each message, a goroutine a connection; each caller has its own connection; no dispatch, no codec"},
	}
}
