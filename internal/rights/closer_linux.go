package rights

import "sync"

const (
	// closersMax bounds the threads that close descriptors of one lane.
	closersMax = 8
	// waitingMax descriptors of one lane wait for them, before calls and connections that
	// bring more are refused.
	waitingMax = 512
)

// The lanes are of the whole process: threads are its, too. What may well make its closing wait
// does not hold up what seldom does.
var ordinary, suspect closer

// A closer runs what may wait in a few goroutines, which end when there is nothing
// more to do. Its zero value is ready.
type closer struct {
	mu      sync.Mutex
	waiting []task
	count   int // descriptors of those that wait
	running int
}

// A task is what came together: it is run by one goroutine, so that it takes no more than one thread.
type task struct {
	run   func()
	count int
}

func (c *closer) isFull() bool { return c.waits() >= waitingMax }

func (c *closer) waits() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// Waiting returns how many descriptors stay open because very many wait to be closed; 0: not so many.
func Waiting() int {
	if !suspect.isFull() {
		return 0
	}
	return ordinary.waits() + suspect.waits()
}

// run never waits: descriptors stay open until a goroutine comes to them.
func (c *closer) run(count int, run func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, task{run: run, count: count})
	c.count += count
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
		c.count -= next.count
		c.mu.Unlock()
		next.run()
		c.mu.Lock()
	}
	c.running--
}
