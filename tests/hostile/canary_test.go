package hostile_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory/memorytest"
	"github.com/nearcall/nearcall/internal/wire"
)

const (
	canaryTimeout = time.Minute
	canaryLooks   = 2000
	// disturbedBound is for a caller beside attackers that keep all CPUs busy.
	disturbedBound = 500 * time.Millisecond
)

// canarySizes are those of its echoes: in the first line of a slot, in a slot, in
// the arena.
var canarySizes = []int{16, 60, 300, 5000, 70_000}

// A canary is a well-behaved caller that calls all the time.
type canary struct {
	name   string
	own    pattern
	caller *memorytest.Caller
	random *rand.Rand
	stop   chan struct{}
	done   sync.WaitGroup
	times  []time.Duration
	err    error
}

// newCanary connects one, with shared memory or without.
func newCanary(all *names, path string, memory bool, seed uint64) (c *canary, err error) {
	c = &canary{name: "canary with a socket", stop: make(chan struct{}), random: rand.New(rand.NewPCG(seed, 99))}
	if memory {
		c.name = "canary with memory"
		c.caller, err = memorytest.ConnectWithMemory(path, canaryTimeout)
	} else {
		c.caller, err = memorytest.Connect(path, canaryTimeout, wire.FeatureSharedClock)
	}
	if err != nil {
		return nil, err
	}
	c.caller.Looks = canaryLooks
	c.own = all.add(c.name)
	return c, nil
}

func (c *canary) start() {
	c.done.Go(func() {
		for c.err == nil {
			select {
			case <-c.stop:
				return
			default:
				c.err = c.call()
			}
		}
	})
}

// call makes one echo and looks at every byte that comes back.
func (c *canary) call() error {
	data := c.own.fill(canarySizes[c.random.IntN(len(canarySizes))])
	begin := time.Now()
	if err := c.caller.Conn.SetDeadline(begin.Add(canaryTimeout)); err != nil {
		return err
	}
	request := c.caller.Request("echo", data)
	if err := c.caller.Put(&request); err != nil {
		return err
	}
	reply, err := c.caller.TakeFrame()
	if err != nil {
		return err
	}
	c.times = append(c.times, time.Since(begin))
	if reply.Type == wire.Reply && reply.CallID == request.CallID && bytes.Equal(reply.Payload, data) {
		return nil
	}
	who, _ := c.own.foreign(reply.Payload)
	return fmt.Errorf("%v for call %d with %d bytes, some of them those of %q; want the reply to %d with %d bytes",
		reply.Type, reply.CallID, len(reply.Payload), who, request.CallID, len(data))
}

// finish stops it and says what it met.
func (c *canary) finish() (string, error) {
	close(c.stop)
	c.done.Wait()
	if c.err != nil {
		return "", fmt.Errorf("%s, after %d calls: %w", c.name, len(c.times), c.err)
	}
	slices.Sort(c.times)
	at := func(part float64) time.Duration { return c.times[int(part*float64(len(c.times)-1))] }
	if at(0.99) > disturbedBound {
		return "", fmt.Errorf("%s is disturbed: p99 %s, bound %s", c.name, at(0.99), disturbedBound)
	}
	return fmt.Sprintf("%s: %d calls, p50 %s, p99 %s, slowest %s", c.name, len(c.times), at(0.5), at(0.99), at(1)), nil
}
