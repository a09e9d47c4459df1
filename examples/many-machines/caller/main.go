// Command caller orders without a pause, from several goroutines, until SIGTERM:
//
//	caller ADDRESS
//
// It prints a line for each order: its number, when the call began (in seconds, wall clock), how
// many seconds it took, and which host has taken the order, or the code and the outcome of the
// error.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/client/clienttls"
	"github.com/nearcall/nearcall/status"
)

const (
	workers = 4
	// How long an order may take in all, and how long a worker rests after it.
	deadline, rest = 5 * time.Second, 5 * time.Millisecond
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: caller ADDRESS")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	// Certificates are in the parameters of the address.
	c, err := client.New(os.Args[1], clienttls.With(clienttls.Files{}))
	if err != nil {
		fmt.Fprintln(os.Stderr, "caller:", err)
		os.Exit(1)
	}
	defer c.Close()
	var number atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for ctx.Err() == nil {
				order(c, number.Add(1))
				time.Sleep(rest)
			}
		})
	}
	all.Wait()
}

func order(c *client.Client, number int64) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	begun := time.Now()
	host, err := client.Call[string](ctx, c, "order", number, "a chair")
	took := time.Since(begun)
	if failure := (*status.Error)(nil); errors.As(err, &failure) {
		// Words of a line have no spaces.
		host = failure.Code.String() + "/" + strings.ReplaceAll(failure.Outcome.String(), " ", "-")
	} else if err != nil {
		host = "INTERNAL/unknown"
	}
	fmt.Printf("%d %.6f %.6f %s\n", number, float64(begun.UnixMicro())/1e6, took.Seconds(), host)
}
