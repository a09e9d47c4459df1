package server

import (
	"io"
	"net"
	"time"
)

const (
	// An idle connection keeps this much: thousands of them are common.
	inputBytesIdle = 2048
	// A busy one reads many frames at once.
	inputBytesBusy = 32 << 10
	// Beyond this a buffer is given back as soon as it is empty.
	inputBytesKept = 64 << 10
)

// An input holds bytes that were read and not parsed yet. Frames that were
// parsed alias it until the next fill.
type input struct {
	data       []byte
	start, end int
	bounded    bool // a read deadline is set
}

func newInput() *input { return &input{data: make([]byte, inputBytesIdle)} }

func (in *input) unread() []byte { return in.data[in.start:in.end] }

func (in *input) advance(n int) { in.start += n }

// split returns an input with the unread bytes; in stays as it is, for frames
// that alias it.
func (in *input) split() *input {
	rest := in.unread()
	made := &input{data: make([]byte, max(inputBytesIdle, len(rest))), bounded: in.bounded}
	made.end = copy(made.data, rest)
	return made
}

// makeRoom makes room to read on when the frame at the front takes need bytes
// in all. A buffer grows with what has arrived, never with what was only
// announced: to at most twice the bytes that are there, or a small first step.
func (in *input) makeRoom(need int) {
	have := in.end - in.start
	switch {
	case have == 0:
		in.start, in.end = 0, 0
		if len(in.data) > inputBytesKept {
			in.data = make([]byte, inputBytesBusy)
		}
	case need <= len(in.data)-in.start:
	case need <= len(in.data):
		in.move(in.data)
	default:
		in.move(make([]byte, min(need, max(2*have, inputBytesKept))))
	}
}

func (in *input) move(to []byte) {
	in.end = copy(to, in.unread())
	in.start = 0
	in.data = to
}

// boundWait sets a deadline while a part of a frame is there, so that half a
// frame is not waited for longer than a whole one may take.
func (in *input) boundWait(conn net.Conn, timeout time.Duration) error {
	partial := in.end > in.start
	if partial == in.bounded {
		return nil
	}
	in.bounded = partial
	if partial {
		return conn.SetReadDeadline(time.Now().Add(timeout))
	}
	return conn.SetReadDeadline(time.Time{})
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
