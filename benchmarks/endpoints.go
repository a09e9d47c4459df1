package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Servers of functions by what moves their bytes and where they listen.
const (
	testServerTCP  serverName = "testserver TCP"
	goServerTCP    serverName = "Go echo TCP"
	eventServer    serverName = "event loop"
	eventServerTCP serverName = "event loop TCP"
	// It gives shared memory to more callers than the default allows one user.
	manyServer      serverName = "testserver many"
	manyEventServer serverName = "event loop many"
)

// What a result says of a row whose server has an event loop.
const eventLoop = "eventloop"

// anyPort is a TCP address of this machine; its server tells the port.
const anyPort = "tcp:127.0.0.1:0"

// manyMemoryBytes is shared memory for as many callers as any row has.
const manyMemoryBytes = 16 << 30

// endpoint returns the command of a server; none for those that scene starts otherwise.
func (s *scene) endpoint(name serverName) []string {
	local := "unix:" + filepath.Join(s.folder, strings.ReplaceAll(string(name), " ", "-")+".sock")
	switch name {
	case testServerTCP:
		return []string{s.built("testserver"), "-address", anyPort}
	case goServerTCP:
		return []string{s.built("bareserver"), anyPort}
	case eventServer:
		return []string{s.built("eventserver"), "-address", local}
	case eventServerTCP:
		return []string{s.built("eventserver"), "-address", anyPort}
	case manyServer:
		return []string{s.built("testserver"), "-address", local, "-shared-memory-bytes-per-user", strconv.Itoa(manyMemoryBytes)}
	case manyEventServer:
		return []string{s.built("eventserver"), "-address", local, "-shared-memory-bytes-per-user", strconv.Itoa(manyMemoryBytes)}
	}
	if program, _, ok := idleServerOf(name); ok {
		return []string{s.built(program), "-address", local}
	}
	return s.peerServer(name, local)
}

func (s *scene) startEndpoint(name serverName) error {
	command := s.endpoint(name)
	if _, err := os.Stat(command[0]); err != nil {
		return fmt.Errorf("the server of this row is not there: %w", err)
	}
	server, err := s.start(command...)
	if err == nil {
		s.servers[name] = server
	}
	return err
}

// endpointAddress is where such a server said that it listens.
func (s *scene) endpointAddress(plan rowPlan) string {
	return strings.TrimSpace(strings.TrimPrefix(s.servers[plan.server].said, readyWord)) + plan.route.parameter()
}

// onGoProcessors runs the Go programs of a group with so many processors of the
// scheduler.
type onGoProcessors int

func (onGoProcessors) pinning() string { return "" }

func (n onGoProcessors) enter() ([]string, func() error, error) {
	return []string{"env", fmt.Sprintf("GOMAXPROCS=%d", n)}, func() error { return nil }, nil
}
