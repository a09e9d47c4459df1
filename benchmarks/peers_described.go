package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/nearcall/nearcall/benchmarks/peerlist"
	"github.com/nearcall/nearcall/benchmarks/process"
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

// allBeside are the ways of Nearcall and those of a bare socket. Callers that have a client each,
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
		bare   = "Unix socket, a 4-byte length before each message, a goroutine a connection; no dispatch, no codec, no deadline; answers are read into memory that the caller keeps"
	)
	return []besidePeer{
		{"nearcall-go-shm", "test", "memory", "go:shared", true, false, oneForAll, raw + usual + memory},
		{"nearcall-go-socket", "test", "socket", "go:shared", true, false, oneForAll, raw + usual + socket},
		{bareName, "go", "memory", "go:bare", true, false, oneEach, bare},
		{"nearcall-go-shm-typed", "test", "memory", "go:typed", false, false, oneForAll, typed + memory},
		{"nearcall-go-socket-typed", "test", "socket", "go:typed", false, false, oneForAll, typed + socket},
		{"nearcall-go-shm-each", "many", "memory", "go:each", false, false, oneEach, raw + "each call has a deadline of one minute; " + memory + much},
		{"nearcall-c-shm", "many", "memory", "c:raw", false, false, processEach, raw + usual + memory + much},
		{"nearcall-c-socket", "many", "socket", "c:raw", false, false, processEach, raw + usual + socket},
		{"nearcall-python-shm", "many", "memory", "python:raw", false, false, processEach, "bytes called by name, every answer an object of its own; " + memory + much},
		{"nearcall-go", "test", "socket", "go:shared", false, true, oneEach, raw + usual + cold},
		{"nearcall-c", "test", "socket", "c:raw", false, true, oneEach, raw + usual + cold},
		{"nearcall-python", "test", "socket", "python:raw", false, true, oneEach, "bytes called by name; " + cold},
		{bareName, "go", "memory", "go:bare", false, true, oneEach, bare},
	}
}

func (t tools) besideWay(b besidePeer) peerWay {
	language, mode, _ := strings.Cut(b.caller, ":")
	w := peerWay{
		name: b.name, server: servers[b.server], route: routes[b.by], program: t.callers()[language](mode), processes: language != "go", quick: b.quick,
		arguments: func(int) []string { return nil }, startsIn: func(int, int) time.Duration { return 0 },
	}
	switch language {
	case "go":
		w.arguments = inOneProcess
	case "python":
		w.startsIn = func(size, callers int) time.Duration {
			return time.Duration(callers) * (pythonStartsIn + time.Duration(size)*pythonFillsByte)
		}
	}
	return w
}

// describeBeside returns how what stands beside the peers is set up.
func describeBeside(nearcall string) []result.Peer {
	languages := map[string]string{"go": "Go", "c": "C; server Go", "python": "Python; server Go"}
	var peers []result.Peer
	for _, b := range allBeside() {
		language, _, _ := strings.Cut(b.caller, ":")
		peer := result.Peer{Name: b.name, Version: nearcall, Language: languages[language], Connections: b.connections, Configuration: b.setUp,
			Documentation: "https://github.com/nearcall/nearcall"}
		if b.name == bareName {
			peer.Version, peer.Documentation = runtime.Version(), "https://pkg.go.dev/net"
		}
		peers = append(peers, peer)
	}
	return peers
}

// describeSeconds are far more than any peer takes to say what it is.
const describeSeconds = "20"

// describePeers returns how those are set up that rows with figures are about, and who
// could not tell.
func (t tools) describePeers(rows []measuredRow, nearcall string) (described []result.Peer, failed []result.LeftOut) {
	known := map[string]result.Peer{}
	for _, peer := range describeBeside(nearcall) {
		known[peer.Name] = peer
	}
	listed := map[string]peerlist.Peer{}
	for _, peer := range peerlist.All() {
		listed[peer.Name] = peer
	}
	seen := map[string]bool{"": true}
	for _, row := range rows {
		name := row.plan.peer
		if row.failed != "" || seen[name] {
			continue
		}
		seen[name] = true
		told, ok := known[name]
		if !ok {
			var err error
			if told, err = t.describe(listed[name]); err != nil {
				failed = append(failed, result.LeftOut{Group: "how the peer " + name + " is set up", Why: err.Error(), Failed: true})
				continue
			}
		}
		described = append(described, told)
	}
	return described, failed
}

// describe lets a peer's programs say what they are: the versions are those of both.
func (t tools) describe(peer peerlist.Peer) (result.Peer, error) {
	told, err := t.toldBy(peer.Name)
	if err != nil || peer.Server == peer.Name {
		told.Name = peer.Name
		return told, err
	}
	server, err := t.toldBy(peer.Server)
	told.Name, told.Version = peer.Name, told.Version+", "+server.Version
	return told, err
}

func (t tools) toldBy(program string) (told result.Peer, err error) {
	text, err := process.Output(nil, "timeout", describeSeconds, t.peerProgram(program), "describe")
	if err == nil {
		err = json.Unmarshal([]byte(text), &told)
	}
	if err == nil && told.Version == "" {
		err = fmt.Errorf("%s describe tells no version", program)
	}
	return told, err
}
