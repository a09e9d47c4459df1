// Command server serves one function on a socket that somebody else holds: Server::Starter,
// or systemd. Without one it makes its own.
//
//	start_server --path=/run/demo/nearcall.sock -- server unix:/run/demo/nearcall.sock
//
// With -note it is the next version, whose function takes one more argument.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/nearcall/nearcall/handoff"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

func main() {
	note := flag.Bool("note", false, "the next version: a transfer may have a note")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: server [-note] ADDRESS, as unix:/run/demo/nearcall.sock")
		os.Exit(2)
	}
	// Ends by draining: calls that have begun are answered.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := &bank{}
	err := serve(ctx, b, *note, flag.Arg(0))
	slog.Info("transfers made", "count", b.transfers.Load())
	if err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

// serve uses the socket that this process was started with, if there is one.
func serve(ctx context.Context, b *bank, note bool, address string) error {
	s, err := server.New()
	if err != nil {
		return err
	}
	register(s, b, note)
	inherited, err := handoff.Inherited()
	if err != nil {
		return err
	}
	for _, item := range inherited {
		if item.Listener != nil {
			return s.Serve(ctx, item.Listener)
		}
	}
	return s.ListenAndServe(ctx, address)
}

// A bank counts transfers.
type bank struct{ transfers atomic.Int64 }

// register leaves errors to Serve, which returns them.
func register(s *server.Server, b *bank, note bool) {
	doc := server.Doc("Moves an amount; returns the process that did it.")
	if note {
		s.Register("transfer", b.transferWithNote, server.Params("from", "to", "cents", "note"), doc)
		return
	}
	s.Register("transfer", b.transfer, server.Params("from", "to", "cents"), doc)
}

func (b *bank) transfer(from, to string, cents int64) (int64, error) {
	if from != "alice" || to != "bob" || cents <= 0 {
		return 0, status.Errorf(status.InvalidArgument, "%d cents from %q to %q: this bank moves one cent or more, from \"alice\" to \"bob\"", cents, from, to)
	}
	b.transfers.Add(1)
	return int64(os.Getpid()), nil
}

func (b *bank) transferWithNote(from, to string, cents int64, _ *string) (int64, error) {
	return b.transfer(from, to, cents)
}
