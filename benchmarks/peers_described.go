package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/nearcall/nearcall/benchmarks/peerlist"
	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// besideDescribed are what stands beside the peers: name, language, connections of several callers, and how it is set
// up. Peers in C and Python stand beside Nearcall from C and from Python.
func besideDescribed() [][4]string {
	const (
		c, python   = "C; server Go", "Python; server Go"
		oneForAll   = "one for all callers"
		oneEach     = "one each"
		processEach = "one each, which is a process"
		raw         = "raw bytes called by name, no codec; answers are read into memory that the caller keeps; "
		usual       = "each call has the client's default deadline; "
		typed       = "a typed function of package client, MessagePack, every answer a slice of its own; " + usual
		memory      = "Unix socket, shared memory allowed"
		socket      = "Unix socket, ?shm=off"
		much        = ", of which the server may give one user 16 GiB"
		cold        = socket + ": the first calls of a client go by it in any case"
	)
	return [][4]string{
		{"nearcall-go-shm", "Go", oneForAll, raw + usual + memory},
		{"nearcall-go-socket", "Go", oneForAll, raw + usual + socket},
		{bareName, "Go", oneEach,
			"Unix socket, a 4-byte length before each message, a goroutine a connection; no dispatch, no codec, no deadline; answers are read into memory that the caller keeps"},
		{"nearcall-go-shm-typed", "Go", oneForAll, typed + memory},
		{"nearcall-go-socket-typed", "Go", oneForAll, typed + socket},
		{"nearcall-go-shm-parcel", "Go", oneForAll, "the bytes are a field of a struct, MessagePack; the function borrows them, and answers are read into memory that the caller keeps; " + usual + memory},
		{"nearcall-go-shm-each", "Go", oneEach, raw + "each call has a deadline of one minute; " + memory + much},
		{"nearcall-c-shm", c, processEach, raw + usual + memory + much},
		{"nearcall-c-socket", c, processEach, raw + usual + socket},
		{"nearcall-python-shm", python, processEach, "bytes called by name, every answer an object of its own; " + memory + much},
		{"nearcall-go", "Go", oneEach, raw + usual + cold},
		{"nearcall-c", c, oneEach, raw + usual + cold},
		{"nearcall-python", python, oneEach, "bytes called by name; " + cold},
	}
}

// bareName is the way of a bare socket.
const bareName = "bare"

// describeBeside returns how what stands beside the peers is set up.
func describeBeside(nearcall string) []result.Peer {
	var peers []result.Peer
	for _, b := range besideDescribed() {
		peer := result.Peer{Name: b[0], Version: nearcall, Language: b[1], Connections: b[2], Configuration: b[3],
			Documentation: "https://github.com/nearcall/nearcall"}
		if b[0] == bareName {
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
