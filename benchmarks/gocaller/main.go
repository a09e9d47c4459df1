// Command gocaller is the Go caller: it measures one way to call, when it is told
// to. Commands, report and what is timed are those of callers/caller.c, which
// also says how; allocations are not counted.
//
//	gocaller MODE ADDRESS PAYLOAD_BYTES CALLERS [CALLS_PER_MS]
//
// The callers are goroutines. With "shared" they share one client, with "each" each
// has a client of its own, with "bare" a connection of its own to an echo server with
// a length prefix. With "oneshot" each call has a client of its own, with
// "persistent" each caller has; "oneshot-timeout" and "persistent-timeout" are these with
// a deadline.
//
// With CALLS_PER_MS every caller makes so many calls for every millisecond of a run,
// however long that takes: the same work for all.
package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/protocol"
	"github.com/nearcall/nearcall/client"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gocaller:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 4 && len(args) != 5 {
		return fmt.Errorf("usage: gocaller MODE ADDRESS PAYLOAD_BYTES CALLERS [CALLS_PER_MS]")
	}
	var numbers [3]int
	for i, arg := range args[2:] {
		var err error
		if numbers[i], err = strconv.Atoi(arg); err != nil {
			return err
		}
	}
	all, err := openSubjects(args[0], args[1], numbers[0], numbers[1])
	if err != nil {
		return err
	}
	return protocol.Serve(func(c protocol.Command) (protocol.Report, error) {
		return all.measure(c, numbers[2]*int(c.Length.Milliseconds()))
	})
}

// subjects are the callers of this process.
type subjects struct {
	calls   []calling.Call
	clients []*client.Client // that stay, and can tell how the calls went
}

func openSubjects(mode, address string, payloadBytes, callers int) (subjects, error) {
	payload := calling.Payload(payloadBytes)
	switch mode {
	case "bare":
		return openBare(address, payload, callers)
	case "shared":
		return openShared(address, payload, callers)
	case "each":
		return openEach(address, payload, callers, withDeadline)
	case "persistent":
		return openEach(address, payload, callers, noDeadline)
	case "persistent-timeout":
		return openEach(address, payload, callers, withDeadline)
	case "oneshot":
		return openOneShot(address, payload, callers, noDeadline)
	case "oneshot-timeout":
		return openOneShot(address, payload, callers, withDeadline)
	}
	return subjects{}, fmt.Errorf("mode %q; see gocaller/main.go", mode)
}

// measure lets all call: as the command has it or, with count, so often each.
func (all subjects) measure(c protocol.Command, count int) (protocol.Report, error) {
	r, err := calling.Measure(all.calls, c, count)
	r.Transport = all.transport()
	return r, err
}

// transport is that of the client that has the least.
func (all subjects) transport() protocol.Transport {
	if len(all.clients) == 0 {
		return protocol.Unknown
	}
	least := protocol.TCP
	for _, c := range all.clients {
		least = min(least, protocol.TransportOf(c.Transport()))
	}
	return least
}
