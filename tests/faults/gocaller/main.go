// Command gocaller does in Go what callers/ledger.c does in C: it calls
// ledger(key) with one key after the other and says what became of each.
//
//	gocaller ADDRESS FIRST_KEY CALLS TIMEOUT_MS
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/status"
)

// Some calls last, so that faults meet functions that have started.
const (
	slowEvery = 4
	slowMs    = 3
)

// Several goroutines share the connection, as Go programs do.
const goroutines = 4

func main() {
	numbers := make([]uint64, 3)
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.ParseUint(os.Args[i+2], 10, 64); err != nil {
			fail(err)
		}
	}
	c, err := client.New(os.Args[1])
	if err != nil {
		fail(err)
	}
	defer c.Close()
	keys := make(chan uint64)
	var all sync.WaitGroup
	for range goroutines {
		all.Add(1)
		go func() {
			defer all.Done()
			for key := range keys {
				callAndTell(c, key, time.Duration(numbers[2])*time.Millisecond)
			}
		}()
	}
	for i := range numbers[1] {
		keys <- numbers[0] + i
	}
	close(keys)
	all.Wait()
}

// callAndTell writes each line with one write, so that lines of goroutines do
// not mix and none is cut in two.
func callAndTell(c *client.Client, key uint64, timeout time.Duration) {
	fmt.Printf("b %d\n", key)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	started := time.Now()
	err := call(ctx, c, key)
	took := time.Since(started)
	var failure status.Error
	if known := (*status.Error)(nil); errors.As(err, &known) {
		failure = *known
	} else if err != nil {
		fail(err)
	}
	fmt.Printf("e %d %d %d %d\n", key, failure.Code, failure.Outcome, took.Microseconds())
}

func call(ctx context.Context, c *client.Client, key uint64) error {
	if key%slowEvery == 0 {
		_, err := client.Call[uint64](ctx, c, "ledger_slow", key, slowMs)
		return err
	}
	_, err := client.Call[uint64](ctx, c, "ledger", key)
	return err
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "gocaller:", err)
	os.Exit(2)
}
