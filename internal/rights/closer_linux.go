package rights

import (
	"sync"
	"sync/atomic"
)

const (
	// closersMax bounds the threads that close descriptors of one lane.
	closersMax = 8
	// waitingMax descriptors of one lane wait for them, before calls and connections that
	// bring more are refused.
	waitingMax = 512
	// waitingAskedMax do before a connection on which they were agreed to is, whose calls
	// have been refused for long: what they brought waits as well.
	waitingAskedMax = 2 * waitingMax
)

// The lanes are of the whole process: threads are its, too. What may well make its closing wait
// does not hold up what seldom does.
var ordinary, suspect closer

// A closer runs what may wait in a few goroutines, which end when there is nothing
// more to do. Its zero value is ready.
type closer struct {
	// count is of descriptors that wait. It is written with the lock, and read without it:
	// before each read of a socket on kernels that cannot refuse them.
	count atomic.Int64

	mu      sync.Mutex
	waiting []task
	running int
}

// A task is what came together: it is run by one goroutine, so that it takes no more than one thread.
type task struct {
	run   func()
	count int
}

func (c *closer) isFull() bool { return c.has(waitingMax) }

func (c *closer) has(most int64) bool { return c.count.Load() >= most }

// anyHas reports whether so many wait in one of the lanes. Nothing that is received is sure
// to go the other way.
func anyHas(most int64) bool { return ordinary.has(most) || suspect.has(most) }

// Waiting returns how many descriptors stay open because very many wait to be closed; 0: not so many.
func Waiting() int {
	if !anyHas(waitingMax) {
		return 0
	}
	return int(ordinary.count.Load() + suspect.count.Load())
}

// run never waits: descriptors stay open until a goroutine comes to them.
func (c *closer) run(count int, run func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, task{run: run, count: count})
	c.count.Add(int64(count))
	if c.running < closersMax {
		c.running++
		go c.work()
	}
}

func (c *closer) work() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiting) > 0 {
		next := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.count.Add(-int64(next.count))
		c.mu.Unlock()
		next.run()
		c.mu.Lock()
	}
	c.running--
}
