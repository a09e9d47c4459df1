// Command forwarder serves echo by passing its calls on to another server, as a proxy does
// (package forward), and does nothing else.
//
//	forwarder ADDRESS ADDRESS_OF_THE_OTHER
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/server"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: forwarder ADDRESS ADDRESS_OF_THE_OTHER")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "forwarder:", err)
		os.Exit(1)
	}
}

func serve(address, other string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	far, err := client.New(other)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, far.Close()) }()
	f, err := far.Describe(ctx, "echo")
	if err != nil {
		return err
	}
	s, err := server.New()
	if err != nil {
		return err
	}
	if err := s.RegisterForwarded(f.JSON(), far.Forward); err != nil {
		return err
	}
	listener, err := s.Listen(ctx, address)
	if err != nil {
		return err
	}
	fmt.Println("ready", address)
	return s.Serve(ctx, listener)
}
