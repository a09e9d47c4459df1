// Command coldcaller measures how long it takes from the start of a process to a first
// answer. Commands and reports are those of ../README.md; each sample is one start.
//
//	coldcaller caller ADDRESS PAYLOAD_BYTES CALLER...
//	coldcaller server ADDRESS PAYLOAD_BYTES CALLER... -- SERVER...
//	coldcaller host ADDRESS PAYLOAD_BYTES CALLER...
//
// CALLER is a program that says "ready" when it has had an answer; {address} in its
// arguments is ADDRESS. With "server" a SERVER is started first, in whose arguments
// {path} is that of a socket; when it has said "ready ADDRESS" the caller is started with
// that address, and both starts are timed together. With "host" {address} is start:PATH:
// the caller starts a server of its own there. PAYLOAD_BYTES is for the caller to know.
//
// What a report tells of time is that of the samples: ending what was started is not in
// it. CPU is of all that was started, its end included.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/benchmarks/protocol"
)

const usage = "usage: coldcaller caller|server|host ADDRESS PAYLOAD_BYTES CALLER... [-- SERVER...]"

func main() {
	if err := untilTold(run); err != nil {
		fmt.Fprintln(os.Stderr, "coldcaller:", err)
		os.Exit(1)
	}
}

// untilTold lets do work in a folder of its own until it ends or this process is told to
// end. What was started ends with this process at the latest.
func untilTold(do func(folder string, args []string) error) error {
	told, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	folder, err := os.MkdirTemp("", "coldcaller-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	done := make(chan error, 1)
	go func() {
		// A process started by a thread is killed when that thread ends.
		runtime.LockOSThread()
		done <- do(folder, os.Args[1:])
	}()
	select {
	case err := <-done:
		return err
	case <-told.Done():
		return nil
	}
}

// A cold start is what is started.
type coldStart struct {
	address string
	hosts   bool // the caller starts its server
	caller  []string
	server  []string // nil: it runs
	folder  string   // of the servers' sockets
	starts  int      // so far
}

func run(folder string, args []string) error {
	if len(args) < 4 {
		return errors.New(usage)
	}
	c := coldStart{folder: folder, address: args[1], hosts: args[0] == "host", caller: args[3:]}
	if args[0] == "server" {
		dashes := slices.Index(c.caller, "--")
		if dashes < 0 {
			return errors.New(usage)
		}
		c.caller, c.server = c.caller[:dashes], c.caller[dashes+1:]
	}
	if _, _, err := c.once(); err != nil {
		return err
	}
	return protocol.Serve(protocol.AsFastAsItCan(c.measure))
}

func (c *coldStart) measure(command protocol.Command) (protocol.Report, error) {
	report, err := calling.Timed(c.once).Repeat(command.Length, nil)
	report.Elapsed = 0
	for _, samples := range report.Samples {
		for _, took := range samples {
			report.Elapsed += time.Duration(took)
		}
	}
	return report, err
}

// once returns how long one start took; ending what was started is not in it.
func (c *coldStart) once() (took uint64, ok bool, err error) {
	c.starts++
	path := filepath.Join(c.folder, fmt.Sprint(c.starts))
	address := c.address
	if c.hosts {
		address = "start:" + path
	}
	begin := time.Now()
	if c.server != nil {
		server, err := process.Start(filled(c.server, "{path}", path)...)
		if err != nil {
			return 0, false, err
		}
		defer server.Stop()
		address = server.Said
	}
	caller, err := process.Start(filled(c.caller, "{address}", address)...)
	if err != nil {
		return 0, false, err
	}
	took = uint64(time.Since(begin))
	caller.Stop()
	return took, true, nil
}

// filled returns the words with something in a placeholder's stead.
func filled(words []string, placeholder, with string) []string {
	words = slices.Clone(words)
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], placeholder, with)
	}
	return words
}
