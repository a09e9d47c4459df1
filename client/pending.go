package client

import (
	"sync"
	"time"

	"github.com/nearcall/nearcall/internal/descriptors"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// A wake is what the goroutine of a call is woken for.
type wake uint8

const (
	wakeFinished wake = iota
	wakeExpired
)

// noDeadline is the deadline of a call that waits for ever.
const noDeadline = ^uint64(0)

// replyBytesKept bounds what a call that is not in use holds on to.
const replyBytesKept = 64 << 10

// A call is one exchange, from its request to its terminal frame. The goroutine
// that calls owns it; while it is in a connection's table the reader may finish
// it. Calls are reused.
type call struct {
	// wakes holds at most one wakeExpired and then one wakeFinished, so that
	// sending never blocks.
	wakes chan wake

	// What is asked for; constant while the call is in a table.
	frameType  wire.FrameType
	codec      wire.Codec
	name       string
	payload    []byte
	startNs    uint64
	deadlineNs uint64

	// usage is how the program uses the function, nil for bytes of which nothing is
	// known; function is the one that it fits on the connection in use.
	usage    *usage
	function *describedFunction
	// refusal is why the server with the schema refusedSchema did not run the call by
	// the description with refusedHash.
	refusal       *status.Error
	refusedHash   string
	refusedSchema uint64

	// The frame up to its payload, made for one connection.
	header wire.Header
	head   []byte

	// Guarded by connection.mu.
	id      uint64
	expired bool
	// inMemory: the request went through shared memory.
	inMemory bool

	// How the call began to wait; see role. unsent: the connection ended before
	// the kernel had taken the whole request.
	leads, idle, unsent bool

	// The answer. Until the call is finished or given up, replyMu guards reply.
	replyMu    sync.Mutex
	reply      []byte
	replyStart int
	replyCodec wire.Codec
	functionID uint32
	failure    *status.Error
	roundTrip  time.Duration // of a ping

	// dynamic is the usage of calls whose types are seen when they are made, kept
	// between uses with the name of the function that it was of.
	dynamic   usage
	dynamicOf string

	// Buffers of typed calls, kept between uses.
	request []byte
	buffer  []byte

	// files are those of the request and, once it is there, of the reply.
	files descriptors.Table

	// Where the buffers begin, enough for most calls.
	space [3][bufferBytesFirst]byte
}

const bufferBytesFirst = 96

func newCall() *call {
	c := &call{wakes: make(chan wake, 2)}
	c.head, c.request, c.buffer = c.space[0][:0:bufferBytesFirst], c.space[1][:0:bufferBytesFirst], c.space[2][:0:bufferBytesFirst]
	return c
}

// finish hands the call back to its goroutine. Preconditions: it was taken out
// of the table.
func (c *call) finish(failure *status.Error) {
	c.failure = failure
	c.wakes <- wakeFinished
}

// reset makes the call ready for the next use. Preconditions: it is in no table.
func (c *call) reset() {
	select {
	case <-c.wakes:
	default:
	}
	c.name, c.payload, c.reply, c.failure = "", nil, nil, nil
	c.roundTrip = 0
	c.usage, c.function, c.refusal, c.refusedHash = nil, nil, nil, ""
	c.dynamic.encodedBy = nil
	c.files.Close()
	c.leads, c.idle, c.unsent = false, false, false
	c.inMemory = false
	c.id, c.expired, c.functionID, c.replyCodec, c.replyStart = 0, false, 0, 0, 0
	if cap(c.request) > replyBytesKept {
		c.request = nil
	}
	if cap(c.buffer) > replyBytesKept {
		c.buffer = nil
	}
}

// pendingSlotsMin is the first size of a table; a power of two.
const pendingSlotsMin = 64

// A slot holds an id that was sent and not answered. call is nil when it was
// given up: the answer will be dropped, and the server counts it until then.
type slot struct {
	id   uint64
	call *call
}

// A pendingTable finds calls by id: the slot is the id modulo the table's size,
// and an id whose slot is taken is never drawn. The zero value is ready to use.
type pendingTable struct {
	slots   []slot
	used    int
	waiting int
	// lastID is the highest id drawn.
	lastID uint64
	// marks is the number of the connection's start marks, 0 without shared
	// memory: ids that are drawn differ modulo it too, for which fewer must be in
	// the table.
	marks int
}

// free reports whether an id may be drawn.
func (t *pendingTable) free(id uint64) bool {
	step := uint64(len(t.slots))
	if t.marks > 0 {
		step = min(step, uint64(t.marks))
	}
	for at := id & (step - 1); at < uint64(len(t.slots)); at += step {
		if t.slots[at].id != 0 {
			return false
		}
	}
	return true
}

// add draws an id for the call, greater than all before.
func (t *pendingTable) add(c *call) {
	if 2*(t.used+1) > len(t.slots) {
		t.grow()
	}
	mask := uint64(len(t.slots) - 1)
	id := t.lastID + 1
	for !t.free(id) {
		id++
	}
	t.slots[id&mask] = slot{id: id, call: c}
	t.used++
	t.waiting++
	t.lastID = id
	c.id = id
}

// grow doubles the table. Ids that differ modulo its size differ modulo twice
// that, so every slot finds an empty place.
func (t *pendingTable) grow() {
	grown := make([]slot, max(pendingSlotsMin, 2*len(t.slots)))
	for _, s := range t.slots {
		if s.id != 0 {
			grown[s.id&uint64(len(grown)-1)] = s
		}
	}
	t.slots = grown
}

func (t *pendingTable) find(id uint64) *slot {
	if len(t.slots) == 0 || id == 0 {
		return nil
	}
	if s := &t.slots[id&uint64(len(t.slots)-1)]; s.id == id {
		return s
	}
	return nil
}

// waitsFor returns the call with that id if it still waits, else nil.
func (t *pendingTable) waitsFor(id uint64) *call {
	if s := t.find(id); s != nil {
		return s.call
	}
	return nil
}

// take removes an id and returns its call, nil when that was given up. found
// is false for ids that were answered or never used.
func (t *pendingTable) take(id uint64) (c *call, found bool) {
	s := t.find(id)
	if s == nil {
		return nil, false
	}
	c = s.call
	*s = slot{}
	t.used--
	if c != nil {
		t.waiting--
	}
	return c, true
}

// giveUp forgets the call but keeps its id until it is answered. It reports
// whether the call was still waiting.
func (t *pendingTable) giveUp(id uint64) bool {
	s := t.find(id)
	if s == nil || s.call == nil {
		return false
	}
	s.call = nil
	t.waiting--
	return true
}

// takeUnsent removes the calls above limit, the highest that the socket took,
// that went there.
func (t *pendingTable) takeUnsent(limit uint64) []*call {
	var taken []*call
	for i := range t.slots {
		if c := t.slots[i].call; c != nil && c.id > limit && !c.inMemory {
			t.take(c.id)
			taken = append(taken, c)
		}
	}
	return taken
}

// takeAbove removes all ids above limit and returns the calls among them that
// waited.
func (t *pendingTable) takeAbove(limit uint64) []*call {
	var taken []*call
	for i := range t.slots {
		if id := t.slots[i].id; id > limit {
			if c, _ := t.take(id); c != nil {
				taken = append(taken, c)
			}
		}
	}
	return taken
}
