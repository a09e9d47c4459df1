package client

import (
	"sync"
	"time"

	"github.com/nearcall/nearcall/internal/descriptors"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// A wake says why the goroutine of a call is woken.
type wake uint8

const (
	wakeFinished wake = iota
	wakeExpired
)

// noDeadline is the deadline of a call that may wait without a limit.
const noDeadline = ^uint64(0)

// replyBytesKept bounds the memory that a call keeps while it is not in use.
const replyBytesKept = 64 << 10

// A call is one exchange, from its request to its terminal frame. It belongs to the
// goroutine that makes the call. While it is in the table of a connection, the reader
// may finish it. Calls are reused.
type call struct {
	// wakes holds at most one wakeExpired and after it one wakeFinished, so that
	// sending to it never blocks.
	client *core

	wakes chan wake

	// The question. It does not change while the call is in a table.
	frameType  wire.FrameType
	codec      wire.Codec
	name       string
	payload    []byte
	startNs    uint64
	deadlineNs uint64

	// options are those of the view that the call is made through.
	options *callOptions

	// usage is how the program uses the function, nil for bytes of which nothing is
	// known; function is the one that it fits on the connection in use.
	usage    *usage
	function *describedFunction
	// refusal is why a server did not run the call by the description with the hash
	// refusedHash; refusedSchema was that server's schema.
	refusal       *status.Error
	refusedHash   string
	refusedSchema uint64

	// The frame up to its payload, made for one connection.
	header wire.Header
	head   []byte

	// Guarded by connection.mu.
	id      uint64
	expired bool
	// inMemory is set if the request went through shared memory.
	inMemory bool

	// leads and idle say how the call began to wait; see role. unsent is set if the
	// connection ended before the kernel had taken the whole request.
	leads, idle, unsent bool

	// The answer. Until the call is finished or given up, replyMu guards reply.
	replyMu    sync.Mutex
	reply      []byte
	replyStart int
	replyCodec wire.Codec
	functionID uint32
	metadata   map[string][]string // nil unless they are asked for
	failure    *status.Error
	roundTrip  time.Duration // of a ping

	// Of a call that interceptors run around: metadata that they have added, encoded, and
	// how the call itself ended.
	intercepted, called bool
	added               []byte
	callFailure         *status.Error

	// dynamic is the usage of calls whose types are seen when they are made, kept
	// between uses with the name of the function that it was of.
	dynamic   usage
	dynamicOf string

	// Buffers of typed calls. They are kept between uses.
	request []byte
	buffer  []byte

	// files holds the files of the request and, once there is a reply, those of the
	// reply.
	files descriptors.Table

	// The first memory of the buffers, which is enough for most calls.
	space [3][bufferBytesFirst]byte
}

const bufferBytesFirst = 96

func newCall(client *core) *call {
	c := &call{client: client, wakes: make(chan wake, 2)}
	c.head, c.request, c.buffer = c.space[0][:0:bufferBytesFirst], c.space[1][:0:bufferBytesFirst], c.space[2][:0:bufferBytesFirst]
	return c
}

// finish hands the call back to its goroutine. Preconditions: the call was taken out of
// the table.
func (c *call) finish(failure *status.Error) {
	c.failure = failure
	c.wakes <- wakeFinished
}

// reset makes the call ready for its next use. Preconditions: it is in no table.
func (c *call) reset() {
	select {
	case <-c.wakes:
	default:
	}
	c.name, c.payload, c.reply, c.failure, c.metadata = "", nil, nil, nil, nil
	c.roundTrip = 0
	c.usage, c.function, c.refusal, c.refusedHash = nil, nil, nil, ""
	c.dynamic.encodedBy = nil
	c.files.Close()
	c.leads, c.idle, c.unsent = false, false, false
	c.intercepted, c.called, c.callFailure, c.added = false, false, nil, c.added[:0]
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

// A slot holds an id that was sent and not answered. call is nil if the call was given
// up: its answer will be dropped, and until then the server counts it.
type slot struct {
	id   uint64
	call *call
}

// A pendingTable finds calls by id. The slot of an id is the id modulo the size of the
// table. An id whose slot is in use is skipped. The zero value is ready for use.
type pendingTable struct {
	slots   []slot
	used    int
	waiting int
	// lastID is the highest id that was given out.
	lastID uint64
	// marks is the number of start marks of the connection, or 0 without shared memory.
	// Ids in the table then have to differ modulo marks too, so fewer of them fit.
	marks int
}

// free reports whether an id may be given out.
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

// add gives the call an id, higher than all before.
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

// grow doubles the table. Ids that differ modulo the old size differ modulo twice that
// size, so every slot finds an empty place.
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

// waitsFor returns the call with that id if it still waits, or else nil.
func (t *pendingTable) waitsFor(id uint64) *call {
	if s := t.find(id); s != nil {
		return s.call
	}
	return nil
}

// take removes an id and returns its call, or nil if that was given up. found is false
// for ids that were never sent, or that were already answered.
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

// giveUp forgets the call but keeps its id until it is answered. It reports whether the
// call was still waiting.
func (t *pendingTable) giveUp(id uint64) bool {
	s := t.find(id)
	if s == nil || s.call == nil {
		return false
	}
	s.call = nil
	t.waiting--
	return true
}

// takeUnsent removes the calls that were sent by the socket and whose ids are above
// limit, the highest one that the kernel took.
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

// takeAbove removes all ids above limit. It returns the calls among them that were
// still waiting.
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
