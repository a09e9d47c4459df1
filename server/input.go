package server

import (
	"io"
	"net"
	"sync"
	"time"
)

const (
	// An idle connection keeps this much: thousands of them are common.
	inputBytesIdle = 2048
	// A busy one reads many frames at once. Larger buffers are borrowed.
	inputBytesBusy = 32 << 10
	// How much larger the next buffer may be than what has arrived.
	growthMax = 4
)

// An input holds bytes that were read and not parsed yet. Frames that were
// parsed alias it until the next receive.
type input struct {
	data       []byte
	start, end int
	taken      uint64    // bytes of the stream before start
	bounded    bool      // a read deadline is set
	limit      time.Time // for the message that has begun
	renew      bool      // it was set for a message that has been taken since
	own        []byte    // kept while data is borrowed from the pool
	pool       *bufferPool
	lent       lentBuffers // what data or own is, of a connection that is not parked
}

func newInput(pool *bufferPool) *input {
	return &input{data: make([]byte, inputBytesIdle), pool: pool}
}

func (in *input) unread() []byte { return in.data[in.start:in.end] }

// advance takes n bytes, a whole message.
func (in *input) advance(n int) {
	in.start += n
	in.taken += uint64(n)
	in.renew = true
}

// split returns an input with the unread bytes; in stays as it is, for frames
// that alias it.
func (in *input) split() *input {
	rest := in.unread()
	made := &input{data: make([]byte, max(inputBytesIdle, len(rest))), taken: in.taken, bounded: in.bounded, limit: in.limit, renew: in.renew, pool: in.pool}
	made.end = copy(made.data, rest)
	return made
}

// makeRoom makes room to read on when the frame at the front takes need bytes
// in all. What was only announced costs nothing: a buffer is filled before it
// is replaced, and then by one of at most four times the bytes that have come.
func (in *input) makeRoom(need int) {
	have := in.end - in.start
	switch {
	case have == 0:
		in.start, in.end = 0, 0
		in.giveBack()
	case need <= len(in.data)-in.start:
	case in.start > 0:
		in.move(in.data)
	case in.end == len(in.data):
		former := in.data
		in.move(in.pool.get(min(need, growthMax*have)))
		in.keep(former)
	}
}

func (in *input) move(to []byte) {
	in.end = copy(to, in.unread())
	in.start = 0
	in.data = to
}

// keep stores a buffer that data has replaced.
func (in *input) keep(former []byte) {
	if len(former) > inputBytesBusy {
		in.pool.put(former)
	} else {
		in.own = former
	}
}

// giveBack returns a borrowed buffer, so that idle connections hold none.
func (in *input) giveBack() {
	if in.own != nil {
		in.pool.put(in.data)
		in.data, in.own = in.own, nil
	}
}

// boundWait sets a deadline while a part of a frame is there: half a frame is
// not waited for longer than a whole one may take, nor through more than a
// short silence. Each frame has its own: the reads of a busy connection may all
// end within one.
func (in *input) boundWait(conn net.Conn, total, silence time.Duration) error {
	if in.end == in.start {
		if !in.bounded {
			return nil
		}
		in.bounded = false
		return conn.SetReadDeadline(time.Time{})
	}
	now := time.Now()
	if !in.bounded || in.renew {
		in.bounded, in.renew, in.limit = true, false, now.Add(total)
	}
	until := now.Add(silence)
	if until.After(in.limit) {
		until = in.limit
	}
	return conn.SetReadDeadline(until)
}

// fill reads once. A read that fills the buffer shows a busy connection, which
// then gets a larger one.
func (in *input) fill(conn io.Reader) error {
	n, err := conn.Read(in.data[in.end:])
	in.end += n
	if n > 0 {
		err = nil
		if in.end == len(in.data) && len(in.data) < inputBytesBusy {
			in.move(make([]byte, inputBytesBusy))
		}
	}
	return err
}

// A nowReader reads without waiting.
type nowReader interface{ ReadNow(b []byte) (int, error) }

// fillNow is fill without waiting, and into what is there.
func (in *input) fillNow(conn nowReader) error {
	n, err := conn.ReadNow(in.data[in.end:])
	in.end += n
	return err
}

// A bufferPool lends large buffers to connections while a large frame arrives.
// The garbage collector empties it.
type bufferPool struct{ pool sync.Pool }

// get returns a buffer of at least that many bytes.
func (p *bufferPool) get(bytes int) []byte {
	if lent, ok := p.pool.Get().(*[]byte); ok && len(*lent) >= bytes {
		return *lent
	}
	return make([]byte, bytes)
}

func (p *bufferPool) put(buffer []byte) { p.pool.Put(&buffer) }
