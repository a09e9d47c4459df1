package governor_test

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
)

// A world is a machine of some CPUs with a fair scheduler, in virtual time. What runs
// on it are tasks, each with a segment: some CPU time to use, or a spin that ends
// when the task is poked, or at its limit.
type world struct {
	nowNs  uint64
	cpus   []*cpu
	random *rand.Rand
	timers timers
	costs  costs
}

// costs are what the machine's operations take.
type costs struct {
	idleWakeNs uint64 // from a wake to running on a CPU that was idle
	sendNs     uint64 // a system call that sends, of the sender's CPU time
	receiveNs  uint64
	hotCallNs  uint64 // a call between two that spin on two CPUs
	stacks     bool   // who is woken is put on the waker's CPU
}

type timer struct {
	atNs uint64
	do   func()
}

type timers []timer

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].atNs < t[j].atNs }
func (t timers) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)        { *t = append(*t, x.(timer)) }
func (t *timers) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

type cpu struct {
	number   uint64 // from 1
	running  *task
	queue    []*task
	sinceNs  uint64 // the running task has run
	startNs  uint64 // it gets on from then on: waking and switching take time
	frozenNs uint64 // the hypervisor, or a real-time task, has the CPU until then
	hereNs   uint64 // the real-time task
}

type task struct {
	on       *cpu // where it runs or waits to run; nil: it is blocked
	former   *cpu
	pinned   *cpu   // it never runs elsewhere
	leftNs   uint64 // of its segment
	spinning bool
	poked    bool
	then     func(poked bool) // at the segment's end
	usedNs   uint64
	delayNs  uint64 // it was runnable and did not run, not counting what the hypervisor took
	queuedNs uint64 // since then it waits to run
	blocked  bool
	woken    bool // while it was not blocked
	harmless bool // what it does next concerns its own peer only, on another CPU
}

const (
	sliceNs       = 3_000_000
	balanceNs     = 4_000_000 // how often an idle CPU looks for work
	switchNs      = 1_500
	pullNs        = 5_000
	moveNs        = 15_000
	lookNs        = 50 // a spinner sees what came after so long
	yieldAfterNs  = 1_000
	yieldsInVain  = 2 // of so many times that a spinner yields, one lets nobody run
	hypervisor    = false
	realTime      = true
	longestStepNs = 1_000_000
)

func newWorld(cpus int, seed uint64, c costs) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 1)), costs: c, nowNs: 1_000_000}
	for i := range cpus {
		w.cpus = append(w.cpus, &cpu{number: uint64(i + 1)})
	}
	w.after(balanceNs, w.balance)
	return w
}

func (w *world) after(delayNs uint64, do func()) { heap.Push(&w.timers, timer{w.nowNs + delayNs, do}) }

// run gives the task its next segment.
func (t *task) run(workNs uint64, then func()) {
	t.leftNs, t.spinning, t.poked = workNs, false, false
	t.then = func(bool) { then() }
}

func (t *task) spin(limitNs uint64, then func(poked bool)) {
	t.leftNs, t.spinning, t.poked, t.then = limitNs, true, false, then
}

// poke ends a spin, if the task spins, as soon as it runs.
func (t *task) poke() {
	if t.spinning && !t.poked {
		t.poked, t.leftNs = true, min(t.leftNs, lookNs)
	}
}

// block takes the running task off its CPU until it is woken.
func (w *world) block(t *task, then func()) {
	if t.woken {
		t.woken = false
		t.run(0, then)
		return
	}
	t.blocked = true
	t.run(0, then)
	w.leave(t)
}

// leave takes the task off its CPU.
func (w *world) leave(t *task) {
	c := t.on
	t.former, t.on = c, nil
	if c.running != t {
		c.queue = slices.DeleteFunc(c.queue, func(other *task) bool { return other == t })
		return
	}
	c.running = nil
	w.next(c)
}

func (w *world) start(c *cpu, t *task, afterNs uint64) {
	t.on = c
	if t.queuedNs != 0 {
		t.delayNs += w.nowNs - t.queuedNs
		t.queuedNs = 0
	}
	c.running, c.sinceNs, c.startNs = t, w.nowNs, w.nowNs+afterNs
}

func (w *world) enqueue(c *cpu, t *task) {
	t.on, t.queuedNs = c, w.nowNs
	c.queue = append(c.queue, t)
}

// next lets another run on the CPU, one of its own or of another's queue.
func (w *world) next(c *cpu) {
	if len(c.queue) > 0 {
		t := c.queue[0]
		c.queue = c.queue[1:]
		w.start(c, t, switchNs)
		return
	}
	for _, other := range w.cpus {
		if n := len(other.queue); n > 0 && other.queue[n-1].pinned == nil {
			t := other.queue[n-1]
			other.queue = other.queue[:n-1]
			w.start(c, t, pullNs)
			return
		}
	}
}

func (w *world) balance() {
	for _, c := range w.cpus {
		if c.running == nil {
			w.next(c)
		}
	}
	w.after(balanceNs, w.balance)
}

// wakeUp wakes a task; by is who does it, or nil.
func (w *world) wakeUp(t, by *task) {
	if !t.blocked {
		t.woken = true
		return
	}
	t.blocked = false
	c := t.former
	switch {
	case t.pinned != nil:
		c = t.pinned
	case by != nil && w.costs.stacks && by.on != nil:
		c = by.on
	case c.running != nil:
		if i := slices.IndexFunc(w.cpus, func(c *cpu) bool { return c.running == nil }); i >= 0 {
			c = w.cpus[i]
		}
	}
	w.place(t, c)
}

// place: who wakes has its turn when the slice of who runs is over.
func (w *world) place(t *task, c *cpu) {
	switch {
	case c.running == nil:
		w.start(c, t, w.costs.idleWakeNs)
	case w.nowNs-c.sinceNs >= sliceNs:
		w.enqueue(c, c.running)
		w.start(c, t, switchNs)
	default:
		w.enqueue(c, t)
	}
}

// yield lets others of the CPU run, if the scheduler agrees.
func (w *world) yield(t *task) {
	c := t.on
	if len(c.queue) > 0 && w.random.IntN(yieldsInVain) > 0 {
		c.running = nil
		w.enqueue(c, t)
		w.next(c)
	}
}

// move puts the running task on another CPU.
func (w *world) move(t *task) {
	from := t.on
	var to *cpu
	for _, c := range w.cpus {
		if c != from && (to == nil || len(c.queue) < len(to.queue)) {
			to = c
		}
	}
	if to == nil {
		return
	}
	w.leave(t)
	w.place(t, to)
	if to.running == t {
		to.startNs = max(to.startNs, w.nowNs+moveNs)
	}
}

// freeze takes the CPU away from all tasks: to something that runs here, or not.
func (w *world) freeze(c *cpu, forNs uint64, here bool) {
	c.frozenNs = max(c.frozenNs, w.nowNs) + forNs
	if !here {
		return
	}
	c.hereNs = c.frozenNs
	if c.running != nil {
		c.running.delayNs += forNs
	}
}

// runnable counts what runs or wants to.
func (w *world) runnable() (n uint64) {
	for _, c := range w.cpus {
		n += uint64(len(c.queue))
		if c.running != nil {
			n++
		}
		if w.nowNs < c.hereNs {
			n++
		}
	}
	return n
}

// endNs is when something happens to what runs on the CPU by itself.
func (w *world) endNs(c *cpu) uint64 {
	if c.running == nil {
		return math.MaxInt64
	}
	from := max(c.startNs, c.frozenNs, w.nowNs)
	end := from + min(c.running.leftNs, 1<<60)
	if len(c.queue) > 0 {
		end = min(end, max(from, c.sinceNs+sliceNs))
	}
	return end
}

// run lets the world go on until then.
func (w *world) run(untilNs uint64) {
	for w.nowNs < untilNs {
		at := w.timers[0].atNs
		for _, c := range w.cpus {
			at = min(at, w.endNs(c))
		}
		w.advance(at)
		w.fire()
	}
}

// advance lets time pass for what runs.
func (w *world) advance(atNs uint64) {
	for _, c := range w.cpus {
		if c.running == nil {
			continue
		}
		if from := max(c.startNs, c.frozenNs, w.nowNs); atNs > from {
			did := min(atNs-from, c.running.leftNs)
			c.running.leftNs -= did
			c.running.usedNs += did
		}
	}
	w.nowNs = atNs
}

// fire does what is due now.
func (w *world) fire() {
	for w.timers[0].atNs <= w.nowNs {
		heap.Pop(&w.timers).(timer).do()
	}
	for _, c := range w.cpus {
		t := c.running
		if t == nil || w.nowNs < max(c.startNs, c.frozenNs) {
			continue
		}
		switch {
		case t.leftNs == 0:
			then, poked := t.then, t.poked
			t.leftNs, t.spinning, t.then = math.MaxInt64, false, nil
			then(poked)
		case len(c.queue) > 0 && w.nowNs >= c.sinceNs+sliceNs:
			c.running = nil
			w.enqueue(c, t)
			w.next(c)
		}
	}
}
