// Package program is what the programs of all peers in Go have in common. Each has
// three uses, which ../README.md describes:
//
//	PEER serve ADDRESS
//	PEER call ADDRESS PAYLOAD_BYTES CALLERS
//	PEER describe
package program

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/protocol"
)

// A Peer is one way to call that Nearcall is measured beside. One that has started
// processes is an io.Closer too.
type Peer interface {
	// Configuration says in one line how server and callers are set up.
	Configuration() string
	// Documentation is where that is recommended.
	Documentation() string
	// Module is what the peer is made of, "" for the standard library.
	Module() string
	// Serve begins to echo at a socket of this path and returns. Peers that have no
	// Unix sockets listen elsewhere. It returns the address that callers are given.
	Serve(path string) (address string, err error)
	// Open returns that many callers, which send requests of that size.
	Open(address string, size, callers int) ([]calling.Echo, error)
}

// Main does what the program's arguments say and ends the process.
func Main(peer Peer) {
	// A process started by a thread is killed when that thread ends; the main
	// one does not.
	runtime.LockOSThread()
	if err := run(peer, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
}

func run(peer Peer, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		return serve(peer, args[1])
	case len(args) == 4 && args[0] == "call":
		return call(peer, args[1], args[2], args[3])
	case len(args) == 1 && args[0] == "describe":
		return describe(peer)
	}
	return fmt.Errorf("usage: serve ADDRESS, call ADDRESS PAYLOAD_BYTES CALLERS, or describe")
}

func serve(peer Peer, address string) error {
	path, err := calling.Socket(address)
	if err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	if address, err = peer.Serve(path); err != nil {
		return err
	}
	fmt.Println("ready", address)
	<-ended
	if closing, ok := peer.(io.Closer); ok {
		return closing.Close()
	}
	return nil
}

func call(peer Peer, address, sizeText, callersText string) error {
	size, err := strconv.Atoi(sizeText)
	if err != nil {
		return err
	}
	callers, err := strconv.Atoi(callersText)
	if err != nil {
		return err
	}
	echoes, err := peer.Open(address, size, callers)
	if err != nil {
		return err
	}
	calls, err := calling.Echoing(echoes, calling.Payload(size))
	if err != nil {
		return err
	}
	all := calling.New(calls)
	return protocol.Serve(func(c protocol.Command) (protocol.Report, error) { return all.Measure(c, 0) })
}

func describe(peer Peer) error {
	return json.NewEncoder(os.Stdout).Encode(map[string]string{
		"version":       version(peer.Module()),
		"configuration": peer.Configuration(),
		"documentation": peer.Documentation(),
	})
}

// version is that of the module which the program was built with.
func version(module string) string {
	build, ok := debug.ReadBuildInfo()
	if module == "" || !ok {
		return runtime.Version()
	}
	for _, dependency := range build.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	return "unknown"
}

// Shared returns callers that are the same for all, which may be called at once.
func Shared(callers int, echo calling.Echo) []calling.Echo {
	all := make([]calling.Echo, callers)
	for i := range all {
		all[i] = echo
	}
	return all
}
