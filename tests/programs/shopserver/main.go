// Command shopserver serves the functions of package shop, as the guide for servers shows it. It prints
// "ready ADDRESS" when it listens, and leaves on SIGTERM.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/tests/programs/shop"
)

func main() {
	address := flag.String("address", "", "address to serve, such as unix:/path")
	flag.Parse()
	if err := serve(*address); err != nil {
		fmt.Fprintln(os.Stderr, "shopserver:", err)
		os.Exit(1)
	}
}

func serve(address string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	s, err := server.New()
	if err != nil {
		return err
	}
	shop.Register(s)
	listener, err := s.Listen(ctx, address)
	if err != nil {
		return err
	}
	fmt.Println("ready", address)
	return s.Serve(ctx, listener)
}
