package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/benchmarks/protocol"
	"github.com/nearcall/nearcall/internal/wire"
)

// A serverPlan is what rows call: a program as it is started, or where callers find
// functions without one. Rows of a group with the same plan have one server.
type serverPlan struct {
	program string // as benchmarks/run built it; "": none is started for the row alone
	peer    bool   // whether it is a peer's
	web     bool   // whether web starts it, and clients of the web connect to it
	gateway bool   // whether it is a gateway, with what works for it
	library string // what callers load instead
	// serves is whether it serves Nearcall's functions, and so takes flags; a floor takes an
	// address alone.
	serves bool
	port   string // the scheme of its address if it listens at a port, and not at a path
	// session is whether it is in a session of its own, where services and residents are: the
	// scheduler gives every session a group, and waking one of another costs more.
	session bool
	values  bool // whether it takes and gives values that are larger than a frame
	many    bool // whether it gives shared memory to more callers than the default allows one user
	idle    int  // connections that have called once and say nothing more, beside those of rows
}

// Those that are more than a name in rows.
var (
	noServer    = serverPlan{} // the caller needs none
	testServer  = serverPlan{program: "testserver", serves: true}
	eventServer = serverPlan{program: "eventserver", serves: true} // with an event loop
	// A resident command that serves functions beside its runs.
	residentServer = serverPlan{serves: true}
	// A library that callers load; the parent serves a caller that is its child.
	testLibrary = serverPlan{library: "libtestlibrary.so", serves: true}
)

// servers are those that rows.txt names.
var servers = map[string]serverPlan{
	"none": noServer, "c": {program: "echo_server"}, "spin": {program: "spin_server"},
	"go": {program: "bareserver"}, "go-tcp": {program: "bareserver", port: "tcp"}, "go-tls": {program: "bareserver", port: "tls"},
	"test": testServer, "test-tcp": {program: "testserver", serves: true, port: "tcp"},
	"test-tls": {program: "testserver", serves: true, port: "tls"},
	"session":  {program: "testserver", serves: true, session: true}, "many": {program: "testserver", serves: true, many: true},
	"values": {program: "testserver", serves: true, values: true},
	"event":  eventServer, "event-tcp": {program: "eventserver", serves: true, port: "tcp"},
	"many-event": {program: "eventserver", serves: true, many: true},
	"shop":       {program: "shopserver", serves: true}, "shop-library": {library: "libshop.so", serves: true},
	"peer": {peer: true}, "resident": residentServer, "library": testLibrary, "empty": {library: "libempty.so"},
	"web": webServer, "front": frontServer, "nginx": proxyServer, "nginx-plain": plainProxy,
	"floor-direct": floorDirect, "floor-handed": floorHanded,
	"nats": {program: "nats", peer: true}, "gateway": remoteGateway, "gateway-direct": directGateway, "gateway-local": localGateway, "forward": forwardServer,
}

// anyPort is where servers of a scheme listen at a port of this machine, which they tell.
const anyPort = ":127.0.0.1:0"

// manyMemoryBytes is shared memory for as many callers as any row has.
const manyMemoryBytes = 16 << 30

// engine is what a result says of a row that calls the server.
func (p serverPlan) engine() string {
	if p.program == eventServer.program {
		return "eventloop"
	}
	return ""
}

// transport is how calls of the server go that travel by a route; Unknown: their caller
// cannot tell, or has no choice.
func (p serverPlan) transport(by route) protocol.Transport {
	switch {
	case !p.serves:
		return protocol.Unknown
	case p.port == "tcp":
		return protocol.TCP
	case p.port == "tls":
		return protocol.TLS
	case by == byItself:
		return protocol.SameProcess
	case by == bySocket:
		return protocol.Socket
	case by == byMemory, by == byParent:
		return protocol.SharedMemory
	}
	return protocol.Unknown
}

// command returns how a server is started that listens at that path, unless at a port; the
// certificates of one that speaks TLS are in the folder of the path.
func (t tools) command(p serverPlan, path string) []string {
	at, address, certified := path, "unix:"+path, certificates(filepath.Dir(path))
	if p.port != "" {
		at, address = p.port+anyPort, p.port+anyPort
	}
	if p.peer {
		return []string{t.peerProgram(p.program), "serve", address}
	}
	command := []string{t.built(p.program)}
	if !p.serves {
		return append(append(command, at), certified.of(p)...)
	}
	command = append(command, "-address", address)
	if p.port == "tls" {
		command = append(command, "-tls-cert", certified.certificate(), "-tls-key", certified.key())
	}
	if p.values { // memory at the first call: a caller cannot make many of them until it comes
		command = append(command, "-value-bytes-max", strconv.Itoa(wire.ValueBytesMaxCeiling), "-shared-memory-after-calls", "1")
	}
	if p.many {
		command = append(command, "-shared-memory-bytes-per-user", strconv.Itoa(manyMemoryBytes))
	}
	return command
}

// startServers starts every server that the rows call; rows whose server does not
// start fail. The caller stops them, also those that an error left.
func (s *scene) startServers(rows []measuredRow) {
	s.servers = map[serverPlan]*process.Process{}
	for i := range rows {
		if err := s.startServer(rows[i].plan); err != nil {
			s.fail(&rows[i], err)
		}
	}
}

// startServer starts the server of a row, unless it runs, or there is none.
func (s *scene) startServer(row rowPlan) error {
	p := row.server
	switch {
	case row.notMeasured != "":
		return errors.New(row.notMeasured)
	case s.servers[p] != nil:
		return nil
	case p.web:
		return s.startWeb(p)
	case p.gateway:
		return s.startGateway(p)
	case p == forwardServer:
		return s.startForwarder()
	case p == residentServer:
		return s.startResident()
	case p.program == "":
		return nil
	}
	if p.idle > 0 { // the server inherits it
		if err := allowDescriptors(uint64(p.idle) + descriptorsSpare); err != nil {
			return err
		}
	}
	if p.port == "tls" {
		if err := certificates(s.folder).write(); err != nil {
			return err
		}
	}
	command := s.command(p, s.nextSocket())
	if _, err := os.Stat(command[0]); err != nil {
		return fmt.Errorf("the server of this row is not there: %w", err)
	}
	if p.session {
		command = append([]string{"setsid"}, command...)
	}
	server, err := s.start(command...)
	if err != nil {
		return err
	}
	s.servers[p] = server
	if p.idle == 0 {
		return nil
	}
	return s.also(s.connectIdle(server.Said, p.idle))
}

// address returns where the callers of a row find what they call.
func (s *scene) address(row rowPlan) string {
	p := row.server
	switch {
	case p.web:
		return "tcp:" + s.web[p]
	case row.route == byRun:
		return row.command.address()
	case p == residentServer:
		return s.resident + row.route.parameter()
	case p.library != "":
		return "embed:" + s.built(p.library)
	case p.program == "":
		return "none:"
	}
	if p.serves && p.port == "tls" {
		return s.servers[p].Said + "?ca=" + certificates(s.folder).authority()
	}
	return s.servers[p].Said + row.route.parameter()
}
