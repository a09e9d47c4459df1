// Command gocaller does in Go what callers/ledger.c does in C: it calls
// ledger(key) with one key after the other and says what became of each.
//
//	gocaller ADDRESS FIRST_KEY CALLS TIMEOUT_MS SLOW_EVERY
//
// NEARCALL_PAUSE_US in the environment is how long each goroutine rests before each call.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/client/clienttls"
	"github.com/nearcall/nearcall/status"
)

// How long those calls last that faults are to meet in functions.
const slowMs = 3

// Several goroutines share the connection, as Go programs do.
const goroutines = 4

// A plan is what the arguments say.
type plan struct{ first, calls, timeoutMs, slowEvery uint64 }

func main() {
	var p plan
	for i, number := range []*uint64{&p.first, &p.calls, &p.timeoutMs, &p.slowEvery} {
		var err error
		if *number, err = strconv.ParseUint(os.Args[i+2], 10, 64); err != nil {
			fail(err)
		}
	}
	// Without it there is no pause.
	pauseUs, _ := strconv.Atoi(os.Getenv("NEARCALL_PAUSE_US"))
	c, err := client.New(os.Args[1], clienttls.With(clienttls.Files{}))
	if err != nil {
		fail(err)
	}
	defer c.Close()
	keys := make(chan uint64)
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for key := range keys {
				time.Sleep(time.Duration(pauseUs) * time.Microsecond)
				p.callAndTell(c, key)
			}
		})
	}
	for i := range p.calls {
		keys <- p.first + i
	}
	close(keys)
	all.Wait()
}

func (p *plan) callAndTell(c *client.Client, key uint64) {
	memory := c.Transport() == "shared memory"
	say(key, 0, 0, status.Error{}, memory)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(p.timeoutMs)*time.Millisecond)
	defer cancel()
	started := time.Now()
	err := p.call(ctx, c, key)
	took := time.Since(started)
	var failure status.Error
	if known := (*status.Error)(nil); errors.As(err, &known) {
		failure = *known
	} else if err != nil {
		fail(err)
	}
	say(key, took, 1, failure, memory)
}

// say writes one record at once, so that those of goroutines do not mix and none
// is cut in two.
func say(key uint64, took time.Duration, what byte, failure status.Error, memory bool) {
	record := binary.LittleEndian.AppendUint64(nil, key)
	record = binary.LittleEndian.AppendUint32(record, uint32(took.Microseconds()))
	record = append(record, what, byte(failure.Code), byte(failure.Outcome), 0)
	if memory {
		record[len(record)-1] = 1
	}
	if _, err := os.Stdout.Write(record); err != nil {
		fail(err)
	}
}

func (p *plan) call(ctx context.Context, c *client.Client, key uint64) error {
	if key%p.slowEvery == 0 {
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
