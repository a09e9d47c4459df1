// Package program is what the programs of all peers in Go have in common. Their uses
// are those that ../README.md describes.
package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/protocol"
)

// What several callers of a peer may have.
const (
	OneForAll = "one for all callers"
	OneEach   = "one each"
)

// A Peer is one way to call that Nearcall is measured beside.
type Peer struct {
	// Connections is how many there are when several call.
	Connections string
	// Configuration says in one line how server and callers are set up.
	Configuration string
	// Documentation is where that is recommended.
	Documentation string
	// Modules are what the peer is made of; none: the standard library.
	Modules []string
	// Versions returns those of other programs that do the work; nil: there are none.
	Versions func() ([]string, error)
	// Serve begins to listen at a socket of this path. Peers that have no Unix sockets
	// listen elsewhere; nil: another program serves.
	Serve func(path string) (Server, error)
	// Open returns that many callers; nil: another program calls.
	Open Opener
}

// A Server listens.
type Server struct {
	Address string       // what callers are given
	Run     func() error // serves until that fails
	Close   func() error // ends what Serve has started; nil: nothing
}

// An Opener returns that many callers of the server at an address.
type Opener func(address string, callers int) ([]calling.Echo, error)

var errServerEnded = errors.New("the server has ended by itself")

// Main does what the program's arguments say and ends the process.
func Main(peer Peer) {
	if err := run(peer, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
}

func run(peer Peer, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve" && peer.Serve != nil:
		return serve(peer, args[1])
	case len(args) == 4 && (args[0] == "call" || args[0] == "verify") && peer.Open != nil:
		return call(peer, args[0] == "verify", args[1], args[2], args[3])
	case len(args) == 1 && args[0] == "describe":
		return describe(peer)
	}
	return errors.New("usage: serve ADDRESS, call or verify ADDRESS PAYLOAD_BYTES CALLERS, or describe")
}

func serve(peer Peer, address string) error {
	path, err := calling.Socket(address)
	if err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	server, err := peer.Serve(path)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Run() }()
	fmt.Println("ready", server.Address)
	select {
	case <-ended:
	case err = <-failed:
		// Also where it tells no reason: nobody would answer any more.
		err = errors.Join(errServerEnded, err)
	}
	if server.Close != nil {
		err = errors.Join(err, server.Close())
	}
	return err
}

// OnSocket returns a Serve for what serves on a listener.
func OnSocket(serve func(net.Listener) error) func(path string) (Server, error) {
	return func(path string) (Server, error) {
		listener, err := net.Listen("unix", path)
		if err != nil {
			return Server{}, err
		}
		return Server{Address: "unix:" + path, Run: func() error { return serve(listener) }}, nil
	}
}

// call lets callers run as they are told, or verify the peer.
func call(peer Peer, verify bool, address, sizeText, callersText string) error {
	size, err := strconv.Atoi(sizeText)
	if err != nil {
		return err
	}
	callers, err := strconv.Atoi(callersText)
	if err != nil {
		return err
	}
	echoes, err := peer.Open(address, callers)
	if err != nil {
		return err
	}
	if verify {
		return calling.Verify(echoes, size)
	}
	calls, err := calling.Echoing(echoes, calling.Payload(size))
	if err != nil {
		return err
	}
	all := calling.New(calls)
	return protocol.Serve(func(c protocol.Command) (protocol.Report, error) { return all.Measure(c, 0) })
}

// Shared returns an Opener of callers that have one connection, on which they may call
// at the same time.
func Shared(open func(address string) (calling.Echo, error)) Opener {
	return func(address string, callers int) ([]calling.Echo, error) {
		echo, err := open(address)
		all := make([]calling.Echo, callers)
		for i := range all {
			all[i] = echo
		}
		return all, err
	}
}

// Each returns an Opener of callers that have a connection each.
func Each(open func(address string) (calling.Echo, error)) Opener {
	return func(address string, callers int) ([]calling.Echo, error) {
		all := make([]calling.Echo, callers)
		for i := range all {
			var err error
			if all[i], err = open(address); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
}

// AtPath returns an Opener that gives another the path of the server's socket.
func AtPath(open Opener) Opener {
	return func(address string, callers int) ([]calling.Echo, error) {
		path, err := calling.Socket(address)
		if err != nil {
			return nil, err
		}
		return open(path, callers)
	}
}

func describe(peer Peer) error {
	versions := versionsOf(peer.Modules)
	if peer.Versions != nil {
		others, err := peer.Versions()
		if err != nil {
			return err
		}
		versions = append(versions, others...)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]string{
		"version":       strings.Join(versions, ", "),
		"language":      "Go",
		"connections":   peer.Connections,
		"configuration": peer.Configuration,
		"documentation": peer.Documentation,
	})
}

// versionsOf are those of the modules which the program was built with, each after
// its name.
func versionsOf(modules []string) []string {
	build, ok := debug.ReadBuildInfo()
	if len(modules) == 0 || !ok {
		return []string{runtime.Version()}
	}
	var versions []string
	for _, module := range modules {
		version := "unknown"
		for _, dependency := range build.Deps {
			if dependency.Path == module {
				version = dependency.Version
			}
		}
		versions = append(versions, module+" "+version)
	}
	return versions
}
