package main

import (
	"slices"
	"strconv"
	"time"

	"github.com/nearcall/nearcall/benchmarks/peerlist"
	"github.com/nearcall/nearcall/benchmarks/protocol"
)

// A coldPeer is what is started: a caller with the server running, and both.
type coldPeer struct {
	name   string
	server serverPlan
	// caller has {address} where a server's is to be.
	caller      []string
	hosts       bool // whether it starts its server, when it is given "start:{path}"
	startsIn    time.Duration
	notMeasured string
}

func (t tools) coldPeers() group {
	var rows []rowPlan
	for _, peer := range t.coldBeside() {
		rows = append(rows, t.coldRows(peer)...)
	}
	for _, peer := range peerlist.All() {
		cold := coldPeer{
			name: peer.Name, server: serverOf(peer), startsIn: peer.StartsIn, notMeasured: t.whyNotBuilt(peer),
			caller: []string{t.peerProgram(peer.Name), "call", "{address}", strconv.Itoa(smallBytes), "1"},
			hosts:  peer.Hosts,
		}
		rows = append(rows, t.coldRows(cold)...)
	}
	return group{name: "peers-cold", onlyFull: &coldPeersPace, rows: rows}
}

func (t tools) coldRows(peer coldPeer) []rowPlan {
	row := func(suffix string, server serverPlan, mode string, arguments []string) rowPlan {
		row := plan(peerPrefix+peer.name+suffix, smallBytes, server, byMemory, []string{t.built("coldcaller"), mode})
		row.peer, row.arguments = peer.name, arguments
		row.startsIn, row.about, row.notMeasured = peer.startsIn, peer.startsIn, peer.notMeasured
		row.wants = protocol.Unknown // a caller ends without telling
		return row
	}
	running := row(coldCallerSuffix, peer.server, "caller", peer.caller)
	mode, words := "server", slices.Concat(peer.caller, []string{"--"}, t.command(peer.server, "{path}"))
	if peer.hosts {
		mode, words = "host", peer.caller
	}
	both := row(coldServerSuffix, noServer, mode, words)
	both.serverNotCounted = true // the caller started it, and counts it as its own
	return []rowPlan{running, both}
}
