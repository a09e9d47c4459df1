package main

import (
	"runtime"
	"strconv"
	"time"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// What stands beside the peers, as the names of rows have it. Peers in C and Python
// stand beside Nearcall from C and from Python.
const (
	nearcallGoShm         = "nearcall-go-shm"
	nearcallGoSocket      = "nearcall-go-socket"
	nearcallGoTyped       = "nearcall-go-shm-typed"
	nearcallGoSocketTyped = "nearcall-go-socket-typed"
	nearcallGoEach        = "nearcall-go-shm-each"
	nearcallCShm          = "nearcall-c-shm"
	nearcallCSocket       = "nearcall-c-socket"
	nearcallPythonShm     = "nearcall-python-shm"
	// Those of cold starts: a client's first calls go by the socket.
	nearcallGo     = "nearcall-go"
	nearcallC      = "nearcall-c"
	nearcallPython = "nearcall-python"
)

// What a caller in Python takes to start, about, beside making its bytes; many at once
// wait for each other.
const (
	pythonStartsIn  = 100 * time.Millisecond
	pythonFillsByte = 150 * time.Nanosecond
)

// besidePeers are the rows of Nearcall and of a bare socket. Callers that have a client
// each, in three rows of a group, have more memory than the default allows one user.
func (t tools) besidePeers(suffix string, size, callers int) []rowPlan {
	inGo := func(name string, server serverPlan, by route, mode string) rowPlan {
		row := plan(peerPrefix+name+suffix, size, server, by, t.golang(mode))
		row.peer, row.callers, row.arguments = name, callers, []string{strconv.Itoa(callers)}
		return row
	}
	inProcesses := func(name string, by route, program []string, startsIn time.Duration) rowPlan {
		row := plan(peerPrefix+name+suffix, size, manyServer, by, program)
		row.peer, row.callers, row.processes = name, callers, callers
		row.startsIn = startsIn * time.Duration(callers)
		return row
	}
	rows := []rowPlan{
		inGo(nearcallGoShm, testServer, byMemory, "shared"),
		inGo(nearcallGoSocket, testServer, bySocket, "shared"),
		inGo(bareName, goServer, "", "bare"),
	}
	for i := range rows {
		rows[i].inQuick = true
	}
	return append(rows,
		inGo(nearcallGoTyped, testServer, byMemory, "typed"),
		inGo(nearcallGoSocketTyped, testServer, bySocket, "typed"),
		inGo(nearcallGoEach, manyServer, byMemory, "each"),
		inProcesses(nearcallCShm, byMemory, t.c("raw"), 0),
		inProcesses(nearcallCSocket, bySocket, t.c("raw"), 0),
		inProcesses(nearcallPythonShm, byMemory, t.pythonCaller("raw"), pythonStartsIn+time.Duration(size)*pythonFillsByte))
}

const (
	oneForAll   = "one for all callers"
	oneEach     = "one each"
	processEach = "one each, which is a process"
)

// describeBeside returns how what stands beside the peers is set up.
func describeBeside(nearcall string) []result.Peer {
	const (
		raw    = "raw bytes called by name, no codec; answers are read into memory that the caller keeps; "
		usual  = "each call has the client's default deadline; "
		minute = "each call has a deadline of one minute; "
		byName = raw + usual
		typed  = "a typed function of package client, MessagePack, every answer a slice of its own; " + usual
		memory = "Unix socket, shared memory allowed"
		socket = "Unix socket, ?shm=off"
		much   = ", of which the server may give one user 16 GiB"
		cold   = "Unix socket, ?shm=off: the first calls of a client go by it in any case"
	)
	peers := []result.Peer{
		{Name: nearcallGoShm, Language: "Go", Connections: oneForAll, Configuration: byName + memory},
		{Name: nearcallGoSocket, Language: "Go", Connections: oneForAll, Configuration: byName + socket},
		{Name: nearcallGoTyped, Language: "Go", Connections: oneForAll, Configuration: typed + memory},
		{Name: nearcallGoSocketTyped, Language: "Go", Connections: oneForAll, Configuration: typed + socket},
		{Name: nearcallGoEach, Language: "Go", Connections: oneEach, Configuration: raw + minute + memory + much},
		{Name: nearcallCShm, Language: inC, Connections: processEach, Configuration: byName + memory + much},
		{Name: nearcallCSocket, Language: inC, Connections: processEach, Configuration: byName + socket},
		{Name: nearcallPythonShm, Language: inPython, Connections: processEach, Configuration: "bytes called by name, every answer an object of its own; " + memory + much},
		{Name: nearcallGo, Language: "Go", Connections: oneEach, Configuration: byName + cold},
		{Name: nearcallC, Language: inC, Connections: oneEach, Configuration: byName + cold},
		{Name: nearcallPython, Language: inPython, Connections: oneEach, Configuration: "bytes called by name; " + cold},
	}
	for i := range peers {
		peers[i].Version, peers[i].Documentation = nearcall, "https://github.com/nearcall/nearcall"
	}
	return append(peers, result.Peer{
		Name: bareName, Version: runtime.Version(), Language: "Go", Connections: oneEach, Documentation: "https://pkg.go.dev/net",
		Configuration: "Unix socket, a 4-byte length before each message, a goroutine a connection; no dispatch, no codec, no deadline; answers are read into memory that the caller keeps",
	})
}

const (
	inC      = "C; server Go"
	inPython = "Python; server Go"
)

// coldBeside are the cold starts of what stands beside the peers.
func (t tools) coldBeside() []coldPeer {
	goCaller := func(mode, address string) []string {
		return append(t.golang(mode), address, strconv.Itoa(smallBytes), "1")
	}
	const address, withoutMemory = "{address}", "{address}" + socketOnly
	alone := func(program []string) []string {
		return append(program, withoutMemory, strconv.Itoa(smallBytes))
	}
	return []coldPeer{
		{name: nearcallGo, server: testServer, caller: goCaller("shared", withoutMemory)},
		{name: nearcallC, server: testServer, caller: alone(t.c("raw"))},
		{name: nearcallPython, server: testServer, caller: alone(t.pythonCaller("raw")), startsIn: pythonStartsIn},
		{name: bareName, server: goServer, caller: goCaller("bare", address)},
	}
}
