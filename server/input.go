package server

import (
	"io"
	"net"
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
	dropping   dropping

	// What data and own have above inputBytesIdle is counted there.
	share   *share
	counted int64
}

// A dropping is what is left of a frame that was refused for want of room.
type dropping struct {
	left        int // bytes that have not come
	bytes       int // of the whole frame
	descriptors int
}

func newInput(pool *bufferPool, share *share) *input {
	return &input{data: make([]byte, inputBytesIdle), pool: pool, share: share}
}

func (in *input) unread() []byte { return in.data[in.start:in.end] }

// advance takes n bytes, a whole message.
func (in *input) advance(n int) {
	in.start += n
	in.taken += uint64(n)
	in.renew = true
}

// split returns an input that goes on where this one is, with the unread bytes; in stays as
// it is, for frames that alias it.
func (in *input) split() *input {
	rest, made := in.unread(), *in
	made.own, made.lent = nil, lentBuffers{}
	made.data = make([]byte, max(inputBytesIdle, len(rest)))
	made.start, made.end = 0, copy(made.data, rest)
	made.counted = int64(len(made.data) - inputBytesIdle)
	made.share.count(made.counted)
	return &made
}

// makeRoom makes room to read on when the frame at the front takes need bytes
// in all. What was only announced costs nothing: a buffer is filled before it
// is replaced, and then by one of at most about four times the bytes that have come. It
// reports false when the user's share has none.
func (in *input) makeRoom(need int) bool {
	have := in.end - in.start
	switch {
	case have == 0:
		in.start, in.end = 0, 0
		in.giveBack()
	case need <= len(in.data)-in.start:
	case in.start > 0:
		in.move(in.data)
	case in.end == len(in.data):
		return in.borrow(min(need, growthMax*have))
	}
	return true
}

// borrow replaces a buffer that is full.
func (in *input) borrow(bytes int) bool {
	bytes = pooledBytes(bytes)
	if !in.share.take(int64(bytes)) {
		return false
	}
	in.counted += int64(bytes)
	former := in.data
	in.move(in.pool.get(bytes))
	if in.own == nil {
		in.own = former
	} else {
		in.pool.put(former)
		in.uncount(len(former))
	}
	return true
}

func (in *input) uncount(bytes int) {
	in.counted -= int64(bytes)
	in.share.giveBack(int64(bytes))
}

func (in *input) move(to []byte) {
	in.end = copy(to, in.unread())
	in.start = 0
	in.data = to
}

// giveBack returns a borrowed buffer, so that idle connections hold none.
func (in *input) giveBack() {
	if in.own != nil {
		in.pool.put(in.data)
		in.uncount(len(in.data))
		in.data, in.own = in.own, nil
	}
}

// release gives back all that was borrowed or counted. Nothing is read afterwards.
func (in *input) release(buffers *readBuffers) {
	in.giveBack()
	in.lent.giveBack(buffers)
	in.uncount(int(in.counted))
}

// drop drops the bytes at the front, and those that follow, of a frame that is not to be
// kept.
func (in *input) drop(bytes, descriptors int) {
	have := len(in.unread())
	in.start, in.end = 0, 0
	in.taken += uint64(have)
	in.dropping = dropping{left: bytes - have, bytes: bytes, descriptors: descriptors}
	in.giveBack()
}

// dropUnread drops what has come of such a frame.
func (in *input) dropUnread() {
	n := min(in.dropping.left, len(in.unread()))
	in.dropping.left -= n
	in.start += n
	in.taken += uint64(n)
	in.renew = in.renew || in.dropping.left == 0
}

// boundWait sets a deadline while a part of a frame is there: half a frame is
// not waited for longer than a whole one may take, nor through more than a
// short silence. Each frame has its own: the reads of a busy connection may all
// end within one.
func (in *input) boundWait(conn net.Conn, total, silence time.Duration) error {
	if in.end == in.start && in.dropping.left == 0 {
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
		if in.end == len(in.data) && len(in.data) < inputBytesBusy && in.share.takeSpare(inputBytesBusy-inputBytesIdle) {
			in.counted += inputBytesBusy - inputBytesIdle
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
