// Command server serves three Go functions. All examples call them.
//
//	server unix:/tmp/hello/nearcall.sock
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/nearcall/nearcall/examples/hello/functions"
	"github.com/nearcall/nearcall/server"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: server ADDRESS, as unix:/tmp/hello/nearcall.sock")
		os.Exit(2)
	}
	// Ends by draining: calls that have begun are answered.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, address string) error {
	s, err := server.New()
	if err != nil {
		return err
	}
	if err := functions.Register(s); err != nil {
		return err
	}
	return s.ListenAndServe(ctx, address)
}
