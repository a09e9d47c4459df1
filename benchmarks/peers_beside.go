package main

import (
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// What a caller in Python takes to start, about, beside making its bytes; many at once
// wait for each other.
const (
	pythonStartsIn  = 100 * time.Millisecond
	pythonFillsByte = 150 * time.Nanosecond
)

// A besidePeer is a way that stands beside the peers, as rows.txt has ways, and how it is set
// up. Peers in C and Python stand beside Nearcall from C and from Python.
type besidePeer struct {
	name, server, by, caller string
	quick                    bool // whether a quick run has it too
	cold                     bool // or else it is of cold starts alone: a client's first calls go by the socket
	connections, setUp       string
}

const (
	oneForAll   = "one for all callers"
	oneEach     = "one each"
	processEach = "one each, which is a process"
)

// bareName is the way of a bare socket.
const bareName = "bare"

// allBeside are the ways of Nearcall and that of a bare socket. Callers that have a client each,
// in three rows of a group, have more memory than the default allows one user.
func allBeside() []besidePeer {
	const (
		raw    = "raw bytes called by name, no codec; answers are read into memory that the caller keeps; "
		usual  = "each call has the client's default deadline; "
		typed  = "a typed function of package client, MessagePack, every answer a slice of its own; " + usual
		memory = "Unix socket, shared memory allowed"
		socket = "Unix socket, ?shm=off"
		much   = ", of which the server may give one user 16 GiB"
		cold   = socket + ": the first calls of a client go by it in any case"
	)
	return []besidePeer{
		{"nearcall-go-shm", "test", "memory", "go:shared", true, false, oneForAll, raw + usual + memory},
		{"nearcall-go-socket", "test", "socket", "go:shared", true, false, oneForAll, raw + usual + socket},
		{bareName, "go", "memory", "go:bare", true, false, oneEach,
			"Unix socket, a 4-byte length before each message, a goroutine a connection; no dispatch, no codec, no deadline; answers are read into memory that the caller keeps"},
		{"nearcall-go-shm-typed", "test", "memory", "go:typed", false, false, oneForAll, typed + memory},
		{"nearcall-go-socket-typed", "test", "socket", "go:typed", false, false, oneForAll, typed + socket},
		{"nearcall-go-shm-each", "many", "memory", "go:each", false, false, oneEach, raw + "each call has a deadline of one minute; " + memory + much},
		{"nearcall-c-shm", "many", "memory", "c:raw", false, false, processEach, raw + usual + memory + much},
		{"nearcall-c-socket", "many", "socket", "c:raw", false, false, processEach, raw + usual + socket},
		{"nearcall-python-shm", "many", "memory", "python:raw", false, false, processEach, "bytes called by name, every answer an object of its own; " + memory + much},
		{"nearcall-go", "test", "socket", "go:shared", false, true, oneEach, raw + usual + cold},
		{"nearcall-c", "test", "socket", "c:raw", false, true, oneEach, raw + usual + cold},
		{"nearcall-python", "test", "socket", "python:raw", false, true, oneEach, "bytes called by name; " + cold},
	}
}

// program is what calls, and in which language.
func (t tools) program(b besidePeer) (command []string, language string) {
	language, mode, _ := strings.Cut(b.caller, ":")
	return t.callers()[language](mode), language
}

// besidePeers are the rows of Nearcall and of a bare socket.
func (t tools) besidePeers(suffix string, size, callers int) []rowPlan {
	var rows []rowPlan
	for _, b := range allBeside() {
		if b.cold {
			continue
		}
		program, language := t.program(b)
		row := plan(peerPrefix+b.name+suffix, size, servers[b.server], routes[b.by], program)
		row.peer, row.callers, row.inQuick = b.name, callers, b.quick
		if language == "go" {
			row.arguments = []string{strconv.Itoa(callers)}
		} else {
			row.processes = callers
		}
		if language == "python" {
			row.startsIn = time.Duration(callers) * (pythonStartsIn + time.Duration(size)*pythonFillsByte)
		}
		rows = append(rows, row)
	}
	return rows
}

// describeBeside returns how what stands beside the peers is set up.
func describeBeside(nearcall string) []result.Peer {
	languages := map[string]string{"go": "Go", "c": "C; server Go", "python": "Python; server Go"}
	var peers []result.Peer
	for _, b := range allBeside() {
		_, language := (tools{}).program(b)
		peer := result.Peer{Name: b.name, Version: nearcall, Language: languages[language], Connections: b.connections, Configuration: b.setUp,
			Documentation: "https://github.com/nearcall/nearcall"}
		if b.name == bareName {
			peer.Version, peer.Documentation = runtime.Version(), "https://pkg.go.dev/net"
		}
		peers = append(peers, peer)
	}
	return peers
}

// coldBeside are the cold starts of what stands beside the peers, the bare socket last.
func (t tools) coldBeside() []coldPeer {
	var all []coldPeer
	for _, b := range allBeside() {
		if !b.cold && b.name != bareName {
			continue
		}
		program, language := t.program(b)
		peer := coldPeer{name: b.name, server: servers[b.server],
			caller: append(program, "{address}"+routes[b.by].parameter(), strconv.Itoa(smallBytes))}
		switch language {
		case "go":
			peer.caller = append(peer.caller, "1")
		case "python":
			peer.startsIn = pythonStartsIn
		}
		all = append(all, peer)
	}
	return slices.Concat(all[1:], all[:1])
}
