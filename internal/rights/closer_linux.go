package rights

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// closersMax bounds the threads that close the descriptors of one lane.
	closersMax = 8
	// closerPatience is how long the lane waits for the end of a task before it has one
	// more goroutine. What is quickly closed seldom needs another: each takes a thread, and
	// so time from everybody else.
	closerPatience = time.Millisecond
	// closerShare is how many descriptors may wait for each goroutine before there is
	// one more at once.
	closerShare = waitingMax / closersMax
	// waitingMax is how many descriptors of one lane may wait for these before calls
	// and connections that bring more are refused.
	waitingMax = 512
	// waitingAskedMax is how many may wait before a connection is refused on which
	// descriptors were agreed on. Its calls have been refused for long by then, and
	// what they brought waits as well.
	waitingAskedMax = 2 * waitingMax
)

// The lanes belong to the whole process, as threads do. Descriptors whose closing may
// well wait must not hold up those that seldom do.
var ordinary, suspect closer

// A closer runs what may wait in a few goroutines, which end when there is nothing
// more to do. Its zero value is ready.
type closer struct {
	// count is the number of descriptors that wait. It is written with the lock held.
	// It is read without it, before each read of a socket on kernels that cannot refuse
	// descriptors.
	count atomic.Int64

	mu      sync.Mutex
	waiting []task
	running int
	ended   int  // tasks
	watched bool // watch will run
}

// A task is what came together. One goroutine runs it, so that it takes no more than
// one thread.
type task struct {
	run   func()
	count int
}

func (c *closer) isFull() bool { return c.has(waitingMax) }

func (c *closer) has(most int64) bool { return c.count.Load() >= most }

// anyHas reports whether so many wait in one of the lanes: it is never certain into
// which lane the next descriptor will go.
func anyHas(most int64) bool { return ordinary.has(most) || suspect.has(most) }

// Waiting returns how many descriptors stay open because very many wait to be closed,
// or 0 if not that many wait.
func Waiting() int {
	if !anyHas(waitingMax) {
		return 0
	}
	return int(ordinary.count.Load() + suspect.count.Load())
}

// run never waits. Descriptors stay open until a goroutine comes to them.
func (c *closer) run(count int, run func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, task{run: run, count: count})
	c.count.Add(int64(count))
	if c.running < closersMax && c.count.Load() > int64(c.running)*closerShare {
		c.startLocked()
	}
	c.watchLocked()
}

func (c *closer) startLocked() {
	c.running++
	go c.work()
}

// watchLocked makes sure that a task which waits for others is noticed.
func (c *closer) watchLocked() {
	if c.watched || c.running == closersMax || len(c.waiting) == 0 {
		return
	}
	c.watched = true
	ended := c.ended
	time.AfterFunc(closerPatience, func() { c.watch(ended) })
}

// watch starts one more goroutine if none of the tasks has ended meanwhile.
func (c *closer) watch(ended int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched = false
	if len(c.waiting) > 0 && c.ended == ended && c.running < closersMax {
		c.startLocked()
	}
	c.watchLocked()
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
		c.ended++
	}
	c.running--
}
