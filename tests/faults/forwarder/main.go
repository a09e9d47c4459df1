// Command forwarder stands between callers and the server with the ledger: it serves the
// functions of the ledger by passing their calls on.
//
//	forwarder -to ADDRESS -shared-memory-after-calls COUNT -address ADDRESS
//
// It prints "ready ADDRESS" when it listens.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/server"
)

func main() {
	to := flag.String("to", "", "where calls are passed on to")
	address := flag.String("address", "", "what is served")
	after := flag.Int("shared-memory-after-calls", 16, "see server.WithSharedMemoryAfter")
	flag.Parse()
	if err := run(*to, *address, *after); err != nil {
		fmt.Fprintln(os.Stderr, "forwarder:", err)
		os.Exit(2)
	}
}

func run(to, address string, after int) error {
	far, err := client.New(to)
	if err != nil {
		return err
	}
	defer far.Close()
	s, err := server.New(server.WithSharedMemoryAfter(after), server.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	// The server comes and goes.
	patient := far.With(client.WaitForReady(), client.RetryUnknown())
	for _, name := range []string{"ledger", "ledger_slow"} {
		f, err := patient.Describe(context.Background(), name)
		if err != nil {
			return err
		}
		// Serve returns what fails here.
		_ = s.RegisterForwarded(f.JSON(), far.Forward)
	}
	listener, err := s.Listen(context.Background(), address)
	if err != nil {
		return err
	}
	fmt.Println("ready", address)
	return s.Serve(context.Background(), listener)
}
