package server

import (
	"os"
	"time"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
)

// A reader belongs to the goroutine that has the role: no other may use it. A goroutine
// that loses the role keeps its reader, because the function that it runs may use bytes
// that lie there, and touches nothing in it except inline. The next one gets a reader of
// its own: see successor.
type reader struct {
	connection *connection
	// inline is the call that the reader runs itself. All its calls use the same one.
	inline execution
	// goOn reads on in place of a goroutine that a function has ended. It is a field
	// because frameHandlers, which leads here, cannot also depend on it.
	goOn func(*reader)
	// start makes its goroutine the reader, as read does, and is a field for the same reason.
	start func(*reader)
	position
}

// A position is how far reading has come, which is what a reader leaves to the next.
type position struct {
	input    input
	received received
	parser   wire.Parser
	frame    wire.Frame
	contexts contextSupply
	nowNs    uint64 // when the reader began with the request in frame
	doneNs   uint64 // when the last function that the reader ran returned

	// memory is nil until a busy connection is given some. requests counts up to that,
	// and memoryDue says that it must be given now. marks are those of memory, for calls
	// that begin from now on.
	memory    *memory
	memoryDue bool
	requests  int
	marks     *sharedmemory.Marks
	mustLook  bool // replies were put into the ring since wakeSleeper looked

	stored *storedPayload // where the payload of the request in frame lies, nil if it is in the frame

	simple simpleCalls

	readingOn    readingOn
	readingUntil time.Time // of readingArrived
}

func newReader(c *connection) *reader {
	r := &reader{connection: c, goOn: replaceReader, start: (*reader).read}
	r.input.init(c.server.buffers, c.server.readBuffers, &c.user.input)
	r.inline = execution{server: c.server, connection: c, reader: r, gathers: true}
	return r
}

// successor returns a reader that goes on where this one is. The bytes that the call in
// inline may use stay with this one, and count for that call until it ends.
func (r *reader) successor() *reader {
	made := &reader{connection: r.connection, goOn: r.goOn, start: r.start, position: r.position}
	made.inline = execution{server: r.connection.server, connection: r.connection, reader: made, gathers: true}
	made.contexts = contextSupply{}
	r.inline.counted = r.input.counted
	made.input = r.input.split()
	if r.memory != nil {
		r.inline.counted += r.memory.recordCounted()
		made.memory = r.memory.split()
	}
	return made
}

// release gives back all that the reader holds. Nobody reads any more.
func (r *reader) release() {
	r.input.release(r.connection.server.readBuffers)
	r.inline.dropScratch()
	r.returnMemory()
	r.connection.returnStores()
	r.received.arrivals.Close()
	r.simple.end()
}

// read makes its goroutine the reader: it processes what has arrived, sends the
// answers, and waits for more. It returns when another goroutine has become the reader,
// or when the connection is parked and has none. The reader that sees the connection
// end gives everything back.
func (r *reader) read() {
	c := r.connection
	switch r.readFrames() {
	case readerParked:
		// The next reader takes this one's place in running.
	case readerEnded:
		c.calls.running.Done()
		c.end()
	case readerReplaced:
		c.calls.running.Done()
	}
}

// readerEnd says why a goroutine is no longer the reader.
type readerEnd int

const (
	readerReplaced readerEnd = iota
	readerParked
	readerEnded
)

// readFrames reads for as long as this goroutine is the reader.
func (r *reader) readFrames() readerEnd {
	for {
		goOn, err := r.processBuffered()
		if goOn && err == nil {
			goOn, err = r.processMemory()
		}
		if !goOn {
			return readerReplaced
		}
		parked := false
		if err == nil {
			parked, err = r.await()
		}
		if parked {
			return readerParked
		}
		if err != nil && !r.readsOn(err) {
			r.connection.endOfReading(err)
			return readerEnded
		}
	}
}

// await sends the answers and waits until there is more to process, or parks the
// connection.
func (r *reader) await() (parked bool, err error) {
	c := r.connection
	if r.mustLook {
		r.mustLook = false
		c.output.wakeSleeper(r.memory.end)
	}
	c.output.flush()
	if r.memoryDue {
		r.giveMemory()
	}
	if !r.received.free.IsZero() {
		c.keepPace(r.received.free)
		r.received.free = time.Time{}
	}
	if sleep, err := r.awaitMemory(); !sleep || err != nil {
		return false, err
	}
	need := r.parser.Need(r.input.unread())
	if r.readingOn != readingAll {
		return false, r.receiveRest(need)
	}
	if c.parking != nil {
		return r.receiveOrPark(need)
	}
	return false, r.receive(need)
}

// processBuffered handles all complete frames that have been read. goOn is false if
// this goroutine is no longer the reader.
func (r *reader) processBuffered() (goOn bool, err error) {
	if r.input.dropping.left > 0 {
		if err := r.drop(); err != nil {
			return true, err
		}
	}
	for {
		n, err := r.parser.Next(r.input.unread(), &r.frame)
		if err != nil {
			return true, err
		}
		if n == 0 {
			return true, nil
		}
		r.input.advance(n)
		goOn, err = r.handleFrame(n)
		if err != nil || !goOn {
			return goOn, err
		}
	}
}

// receive waits for more bytes of a message that has need bytes in all. There is a
// deadline only if the message has begun.
func (r *reader) receive(need int) error {
	if err := r.makeRoom(need); err != nil {
		return err
	}
	if ready, err := r.fallAsleep(); !ready {
		return err
	}
	former := len(r.input.unread())
	return r.wakeUp(former, r.input.fill(r.connection.carrier))
}

// fallAsleep prepares to wait for the socket, and reports whether the reader may do so.
func (r *reader) fallAsleep() (bool, error) {
	if err := r.boundWait(); err != nil {
		return false, err
	}
	// A drain that began before the deadline above was set must not be missed.
	if r.connection.calls.draining.Load() {
		return false, os.ErrDeadlineExceeded
	}
	return r.memory.fallAsleep(), nil
}

// wakeUp is called after a read that had to wait. err is what the read returned.
func (r *reader) wakeUp(former int, err error) error {
	r.memory.awake()
	if err == nil {
		err = r.noteArrivals(former)
	}
	r.nowNs = r.connection.server.clock.Ns()
	return err
}

func (r *reader) boundWait() error {
	c := r.connection
	return r.input.boundWait(c.carrier, c.server.config.frameTimeout, c.server.config.frameSilence)
}
