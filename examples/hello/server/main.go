// Command server serves three Go functions. All examples call them.
//
//	server unix:/tmp/hello/nearcall.sock
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
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
	s := server.New()
	var v visits
	err := errors.Join(
		s.Register("greet", greet, server.Params("name"), server.Doc("Greets by name.")),
		s.Register("divide", divide, server.Params("dividend", "divisor"), server.Doc("Quotient and remainder.")),
		s.Register("visit", v.add, server.Params("page"), server.Doc("Counts visits of a page, by whichever process.")),
	)
	if err != nil {
		return err
	}
	return s.ListenAndServe(ctx, address)
}

func greet(name string) string { return "Hello, " + name + "!" }

func divide(dividend, divisor int64) (quotient, remainder int64, err error) {
	if divisor == 0 {
		return 0, 0, status.Errorf(status.InvalidArgument, "the divisor is 0")
	}
	return dividend / divisor, dividend % divisor, nil
}

// visits is state that all workers of all languages share.
type visits struct {
	mu     sync.Mutex
	counts map[string]int64
}

func (v *visits) add(page string) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.counts == nil {
		v.counts = make(map[string]int64)
	}
	v.counts[page]++
	return v.counts[page]
}
