// Command idlecaller opens connections, each of which calls once, says that it is ready,
// and then nothing more until its standard input ends: idlecaller PATH COUNT.
package main

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/nearcall/nearcall/benchmarks/frames"
	"github.com/nearcall/nearcall/internal/wire"
)

const payloadBytes = 64

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "idlecaller:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 3 {
		return fmt.Errorf("usage: idlecaller PATH COUNT")
	}
	count, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	callers := make([]*frames.Caller, count)
	for i := range callers {
		if callers[i], err = frames.Connect(os.Args[1]); err == nil {
			err = callOnce(callers[i])
		}
		if err != nil {
			return fmt.Errorf("connection %d of %d: %w", i+1, count, err)
		}
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	for _, caller := range callers {
		// It has nothing to lose.
		_ = caller.Close()
	}
	return err
}

func callOnce(caller *frames.Caller) error {
	function, err := caller.Resolve("echo")
	if err != nil {
		return err
	}
	_, err = caller.Call(function, wire.CodecRaw, make([]byte, payloadBytes))
	return err
}
