// Command server is a shop that takes orders, on a host of its own:
//
//	server HOST tls:10.213.0.2:7000 ORDERS CERTIFICATE KEY
//	server HOST unix:/run/shop.sock ORDERS
//
// It appends the number of each order that it takes to the file ORDERS, so that it can be counted
// afterwards what was executed, and how often.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/server/servertls"
)

// How long taking an order lasts.
const work = 2 * time.Millisecond

func main() {
	if len(os.Args) != 4 && len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "usage: server HOST ADDRESS ORDERS [CERTIFICATE KEY]")
		os.Exit(2)
	}
	// Ends by draining: orders that have begun are answered, callers go to the other host.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

// options are those for TLS, if there are files.
func options(files []string) ([]server.Option, error) {
	if len(files) == 0 {
		return nil, nil
	}
	certificates, err := servertls.New(servertls.Files{Certificate: files[0], Key: files[1]})
	if err != nil {
		return nil, err
	}
	return []server.Option{certificates.Option()}, nil
}

func serve(ctx context.Context, host, address, path string, files []string) error {
	orders, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer orders.Close()
	secure, err := options(files)
	if err != nil {
		return err
	}
	s, err := server.New(secure...)
	if err != nil {
		return err
	}
	s.Register("order", func(number int64, item string) (string, error) {
		time.Sleep(work)
		// One write of one line: lines of several orders do not mix.
		_, err := fmt.Fprintln(orders, number)
		return host, err
	}, server.Params("number", "item"))
	listener, err := s.Listen(ctx, address)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return s.Serve(ctx, listener)
}
