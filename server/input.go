package server

import (
	"io"
	"time"

	"github.com/nearcall/nearcall/internal/transport"
)

const (
	// An idle connection keeps a buffer of this size; thousands of idle connections are
	// common.
	inputBytesIdle = 2048
	// A busy connection has a buffer of this size, to read many frames at once. Larger
	// buffers are borrowed.
	inputBytesBusy = 32 << 10
	// How many times larger than the bytes that have arrived the next buffer may be.
	growthMax = 4
)

// An input holds bytes that were read and not parsed yet. Frames that were parsed alias
// it until the next receive.
type input struct {
	data       []byte
	start, end int
	taken      uint64    // bytes of the stream that lie before start
	bounded    bool      // a read deadline is set
	limit      time.Time // the deadline of the message that has begun
	renew      bool      // limit was set for a message that has been taken since
	own        []byte    // kept while data is borrowed from the pool
	pool       *bufferPool
	lent       lentBuffers // holds data or own, unless the reader has made them itself
	dropping   dropping

	// What data and own have above inputBytesIdle is counted in the user's share.
	share   *share
	counted int64
}

// A dropping is what is still to come of a frame that was refused for want of room.
type dropping struct {
	left        int // bytes that have not arrived yet
	bytes       int // of the whole frame
	descriptors int
}

func (in *input) init(pool *bufferPool, buffers *readBuffers, share *share) {
	in.pool, in.share = pool, share
	in.wake(buffers)
}

func (in *input) unread() []byte { return in.data[in.start:in.end] }

// advance takes n bytes, which are a whole message.
func (in *input) advance(n int) {
	in.start += n
	in.taken += uint64(n)
	in.renew = true
}

// split returns an input that continues where this one is, with the unread bytes. in
// itself stays as it is, for the frames that alias it.
func (in *input) split() input {
	rest, made := in.unread(), *in
	made.own, made.lent = nil, lentBuffers{}
	made.data = make([]byte, max(inputBytesIdle, len(rest)))
	made.start, made.end = 0, copy(made.data, rest)
	made.counted = int64(len(made.data) - inputBytesIdle)
	made.share.count(made.counted)
	return made
}

// makeRoom makes room to read on when the frame at the front has need bytes in all.
// Bytes that were only announced cost nothing: a buffer is filled before it is
// replaced, and the new one is at most about four times as large as the bytes that have
// arrived. It reports false if there is no room in the user's share.
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

// borrow replaces a buffer that is full by a larger one.
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

// drop drops a frame that is not to be kept: the bytes at the front, and those that
// follow.
func (in *input) drop(bytes, descriptors int) {
	have := len(in.unread())
	in.start, in.end = 0, 0
	in.taken += uint64(have)
	in.dropping = dropping{left: bytes - have, bytes: bytes, descriptors: descriptors}
	in.giveBack()
}

// dropUnread drops what has arrived of such a frame.
func (in *input) dropUnread() {
	n := min(in.dropping.left, len(in.unread()))
	in.dropping.left -= n
	in.start += n
	in.taken += uint64(n)
	in.renew = in.renew || in.dropping.left == 0
}

// boundWait sets a read deadline if a part of a frame is there. A frame must be
// complete within total, and must not be silent for longer than silence. Each frame has
// its own deadline, because the reads of a busy connection may all end in the middle of
// one.
func (in *input) boundWait(carrier transport.Carrier, total, silence time.Duration) error {
	if in.end == in.start && in.dropping.left == 0 {
		if !in.bounded {
			return nil
		}
		in.bounded = false
		return carrier.SetReadDeadline(time.Time{})
	}
	now := time.Now()
	if !in.bounded || in.renew {
		in.bounded, in.renew, in.limit = true, false, now.Add(total)
	}
	until := now.Add(silence)
	if until.After(in.limit) {
		until = in.limit
	}
	return carrier.SetReadDeadline(until)
}

// fill reads once. If the read fills the buffer the connection is busy, and gets a
// larger buffer.
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

// fillNow is fill without waiting, and without a larger buffer.
func (in *input) fillNow(conn nowReader) error {
	n, err := conn.ReadNow(in.data[in.end:])
	in.end += n
	return err
}
