// Command gocaller is the Go caller: it measures one way to call, when it is told
// to. Commands, report and what is timed are those of callers/caller.c, which
// also says how; allocations are not counted.
//
//	gocaller MODE ADDRESS PAYLOAD_BYTES CALLERS [CALLS_PER_MS]
//
// The callers are goroutines. With "shared" they share one client and send bytes as they
// are, with "typed" the same by a typed function: values in MessagePack, every answer a
// slice of its own. With "parcel" the bytes are a field of a struct, and answers
// are stored where those before them were. With "floats" they are a list of
// float64, and with "values" bytes that may be more than a frame has. With "each" each has a client of its own, with "bare" a connection of
// its own to an echo server with a length prefix. With "idle" each has one on which it has
// called once when the program is ready. With "oneshot" each call has a client
// of its own, with "persistent" each caller has; "oneshot-timeout" and
// "persistent-timeout" are these with a deadline.
//
// With "itself-one", "itself-called", "itself-ack" and "itself-md5" Go calls the functions
// of the published account itself: see itself.go. With "app-price" and its like one function of package shop
// is called by its typed function, and with "itself-app-price" and its like itself: see shop.go.
//
// With CALLS_PER_MS every caller makes so many calls for every millisecond of a run,
// however long that takes: the same work for all.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/protocol"
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
	if function, ok := strings.CutPrefix(args[0], "itself-app-"); ok {
		return serveShop(function, "")
	}
	if function, ok := strings.CutPrefix(args[0], "app-"); ok {
		return serveShop(function, args[1])
	}
	if function, ok := strings.CutPrefix(args[0], "itself-"); ok {
		return serveItself(function)
	}
	open, known := openers[args[0]]
	if !known {
		return fmt.Errorf("mode %q; see gocaller/subjects.go", args[0])
	}
	all, err := open(args[1], numbers[1])
	if err != nil {
		return err
	}
	calls, err := calling.Echoing(all.calls, calling.Payload(numbers[0]))
	if err != nil {
		return err
	}
	if !strings.Contains(args[1], "shm=off") {
		if err := all.reachMemory(calls); err != nil {
			return err
		}
	}
	callers := calling.New(calls)
	return protocol.Serve(func(c protocol.Command) (protocol.Report, error) {
		r, err := callers.Measure(c, numbers[2]*int(c.Length.Milliseconds()))
		r.Transport = all.transport()
		return r, err
	})
}
