package client

import (
	"sync"
	"time"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/descriptors"
	"github.com/nearcall/nearcall/internal/nexts"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/observe"
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

const (
	// replyBytesKept bounds the memory that a call keeps in any case while it is not in use.
	replyBytesKept = 64 << 10
	// bufferBytesKept bounds the buffer of replies that it keeps. Calls that are not in use
	// are the garbage collector's.
	bufferBytesKept = 4 << 20
)

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
	payload    []byte // without the pieces of beside
	startNs    uint64
	deadlineNs uint64

	// options are those of the view that the call is made through.
	options *callOptions
	// passed is not nil if the call passes on what others have encoded.
	passed *passedOn

	// at is the endpoint that was used last, if there are several. spills means that the call
	// goes elsewhere instead of waiting for a place.
	at     *endpoint
	spills bool

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
	// takenBefore is what the carrier had taken before the request, if that is counted.
	takenBefore uint64

	// leads and idle say how the call began to wait; see role. unsent is set if the
	// connection ended before the kernel had taken the whole request.
	leads, idle, unsent bool
	// lost is the connection that the call was lost with, if its server can be asked about it.
	lost *lostConnection
	// answered is set in place of wakes by the goroutine of the call, if that reads the
	// answer itself.
	answered bool

	// The answer. Until the call is finished or given up, replyMu guards reply.
	replyMu    sync.Mutex
	reply      []byte
	replyStart int
	// decode, unless it is nil, may be given the payload of a large reply in place of
	// reply; decoded says that it was, and decodeFailure what came of that.
	decode        func(payload []byte)
	decoded       bool
	decodeFailure *status.Error
	// stored is where a reply lies that is in a store.
	stored     *storedPayload
	replyCodec wire.Codec
	functionID uint32
	metadata   map[string][]string // nil unless they are asked for
	failure    *status.Error
	roundTrip  time.Duration // of a ping

	// Of a call that interceptors run around: metadata that they have added, encoded, how
	// the call itself ended, and the deadline that they cannot move.
	intercepted, called, returned bool
	added                         []byte
	callFailure                   *status.Error
	latestNs                      uint64
	nexts                         nexts.Guard

	// observed is what an observer is told of the call, nil without an observer, and
	// observation its memory, which is kept between uses.
	observed, observation *observe.Call

	// dynamic is the usage of calls whose types are seen when they are made, kept
	// between uses with the name of the function that it was of.
	dynamic   usage
	dynamicOf string

	// Buffers of typed calls. They are kept between uses.
	request []byte
	buffer  []byte

	// files holds the files of the request and, once there is a reply, those of the
	// reply. beside leads to them, and has what belongs into payload and was not copied.
	files  descriptors.Table
	beside codec.Beside
	parts  [][]byte

	// The first memory of the buffers, which is enough for most calls.
	space [3][bufferBytesFirst]byte
}

const bufferBytesFirst = 96

func newCall(client *core) *call {
	c := &call{client: client, wakes: make(chan wake, 2)}
	c.beside.Files = &c.files
	c.head, c.request, c.buffer = c.space[0][:0:bufferBytesFirst], c.space[1][:0:bufferBytesFirst], c.space[2][:0:bufferBytesFirst]
	return c
}

// payloadBytes returns how many bytes the payload has in all.
func (c *call) payloadBytes() int { return len(c.payload) + c.beside.PieceBytes() }

// frameParts returns the parts of the frame from its extensions on, or from its header on.
// They are good until the next time.
func (c *call) frameParts(head []byte) [][]byte {
	c.parts = c.beside.AppendParts(append(c.parts[:0], head), c.payload)
	return c.parts
}

// finish hands the call back to its goroutine. Preconditions: the call was taken out of
// the table.
func (c *call) finish(failure *status.Error) {
	c.failure = failure
	c.wakes <- wakeFinished
}

// reset makes the call ready for its next use. Preconditions: it is in no table.
func (c *call) reset() {
	if len(c.wakes) > 0 {
		<-c.wakes // nobody sends to it any more
	}
	c.name, c.payload, c.reply, c.failure, c.metadata = "", nil, nil, nil, nil
	c.roundTrip = 0
	c.at, c.spills = nil, false
	c.usage, c.function, c.refusal, c.refusedHash, c.passed = nil, nil, nil, "", nil
	c.dynamic.encodedBy = nil
	c.files.Close()
	c.beside.Drop()
	c.beside.BytesMax = 0
	clear(c.parts)
	c.parts = c.parts[:0]
	c.leads, c.idle, c.unsent = false, false, false
	c.lost = nil
	c.decode, c.decoded, c.decodeFailure = nil, false, nil
	c.intercepted, c.called, c.returned, c.callFailure, c.added = false, false, false, nil, c.added[:0]
	c.inMemory, c.observed, c.stored = false, nil, nil
	c.id, c.expired, c.functionID, c.replyCodec, c.replyStart = 0, false, 0, 0, 0
	if cap(c.request) > replyBytesKept {
		c.request = nil
	}
	if c.beside.Kept || cap(c.buffer) > bufferBytesKept {
		c.buffer = nil
	}
	c.beside.Kept = false
}
