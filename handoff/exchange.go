package handoff

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
)

// MessageIdle is the message of a connection that is handed back between two requests,
// when none has begun. The process that gets it waits for the next request.
const MessageIdle = "idle"

// An exchange follows the requests and answers on one connection of an http.Server. It
// knows when the connection is between two requests and no byte of the next one has
// been read: only then can the connection go back. If it is not certain, the connection
// stays.
type exchange struct {
	serving *httpServing
	secure  bool

	mu sync.Mutex
	// resting means that the server waits for the next request. total bytes were read
	// since then; head of them are the request's head, and body is how many follow it
	// by its own account.
	resting           bool
	total, head, body int64
	// lost means that it is no longer known where a request begins, or that nobody
	// takes the connection back.
	lost bool
	// deadline is the read deadline that the server has set.
	deadline time.Time
}

// expect is told how long the body of the request is, or a negative number if the
// request does not say.
func (x *exchange) expect(body int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.body = body
}

func (x *exchange) work() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.resting = false
}

// rest compares what was read with the length of the request. If more was read, the
// beginning of the next request is in the server's buffer.
func (x *exchange) rest() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.resting = true
	x.lost = x.lost || x.head == 0 || x.body < 0 || x.total != x.head+x.body
	x.total, x.head, x.body = 0, 0, 0
}

// got notes what the server has read.
func (x *exchange) got(data []byte) {
	if len(data) == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.resting = false
	if x.total == 0 {
		const end = "\r\n\r\n"
		if i := bytes.Index(data, []byte(end)); i >= 0 {
			x.head = int64(i + len(end))
		}
	}
	x.total += int64(len(data))
}

// goes reports whether the connection is to go back now.
func (x *exchange) goes() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.serving.leaving.Load() && x.resting && !x.secure && !x.lost
}

func (x *exchange) stay() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lost = true
}

// wake ends the server's wait for the next request.
func (x *exchange) wake(c *Conn) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.resting && !x.secure && !x.lost {
		_ = c.stream.SetReadDeadline(time.Unix(1, 0))
	}
}

// again restores the server's own deadline after wake. It returns false if that has
// passed.
func (x *exchange) again(c *Conn) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	own := !x.deadline.IsZero() && !x.deadline.After(time.Now())
	return !own && x.serving.leaving.Load() && c.stream.SetReadDeadline(x.deadline) == nil
}

func (x *exchange) setDeadline(c *Conn, t time.Time) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.deadline = t
	return c.stream.SetReadDeadline(t)
}

// turned is told each state that the server reports for the connection.
func (c *Conn) turned(state http.ConnState) {
	x := c.exchange.Load()
	switch {
	case x == nil:
	case state == http.StateHijacked:
		c.exchange.Store(nil)
	case state == http.StateIdle:
		x.rest()
	case state == http.StateActive:
		x.work()
	}
}

// read is what the server reads by. If the connection goes back, the server sees its
// end.
func (x *exchange) read(c *Conn, p []byte) (int, error) {
	for {
		if x.goes() {
			if c.handBackIdle() == nil {
				return 0, io.EOF
			}
			x.stay()
		}
		n, err := c.read(p)
		x.got(p[:n])
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !x.again(c) {
			return n, err
		}
	}
}

// handBackTimeout is how long a giver may take to take a connection back.
const handBackTimeout = wire.HandoffBackMs * time.Millisecond

func (c *Conn) handBackIdle() error {
	ctx, cancel := context.WithTimeout(context.Background(), handBackTimeout)
	defer cancel()
	m := c.meta
	m.Message = []byte(MessageIdle)
	return sendConn(ctx, c.link, "hand back", c, m)
}
