package server

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

const (
	simpleHeaderBytes = 4
	// A shorter beginning of a hash would not distinguish enough descriptions.
	simpleHashDigitsMin = 8
)

// simpleCalls is what a reader knows of a connection that speaks the simple protocol.
type simpleCalls struct {
	spoken bool
	number uint64 // of the last request, because requests of this protocol have no ids
	seenNs uint64 // when the caller was last seen to be there
	// line is nil until a request has to wait.
	line *simpleLine
}

// end lets the goroutine of the line end.
func (s *simpleCalls) end() {
	if s.line != nil {
		s.line.requests.close()
		s.line.cancel(nil)
	}
}

// serveSimple serves a connection that speaks the simple protocol: requests run one at
// a time and are answered in order. The reader runs quick functions itself, as it does
// those of frames. Other requests wait in a line, and the reader reads on meanwhile, so
// that a caller that hangs up is noticed.
func (r *reader) serveSimple() {
	c := r.connection
	c.agreed.frameBytesMax = c.server.config.frameBytesMax
	if c.server.config.observer != nil {
		c.observeOpening()
	}
	r.simple.spoken, r.simple.seenNs, r.goOn = true, c.server.clock.Ns(), replaceSimpleReader
	c.calls.running.Add(1)
	r.readSimple()
}

// readSimple serves requests for as long as this goroutine is the reader. The reader
// that sees the connection end gives everything back.
func (r *reader) readSimple() {
	c := r.connection
	for {
		message, err := r.readSimpleMessage()
		goOn := true
		if err == nil {
			goOn, err = r.handleSimple(message)
		}
		if !goOn {
			c.calls.running.Done()
			return
		}
		if err != nil {
			r.endSimple(err)
			c.calls.running.Done()
			c.end()
			return
		}
	}
}

// readSimpleBeside reads on in place of a goroutine whose function turned out to be
// slow. Requests that follow wait behind that call.
func (r *reader) readSimpleBeside(e *execution) {
	c := r.connection
	r.lineOfSimple().requests.put(simpleTurn{run: func(ctx context.Context) { c.awaitSimple(ctx, e) }})
	c.output.flush()
	r.readSimple()
}

// replaceSimpleReader goes on in place of a goroutine that its call has ended.
func replaceSimpleReader(r *reader) {
	if r.finishSimple() {
		r.readSimple()
	} else {
		r.connection.calls.running.Done()
	}
}

// endSimple answers the requests that wait, tells the caller why the connection ends if
// that is for what it has sent, and closes the connection.
func (r *reader) endSimple(err error) {
	c := r.connection
	c.output.flush()
	if line := r.simple.line; line != nil {
		if c.hungUp(err) {
			line.cancel(err)
		}
		line.requests.close()
		c.awaitOrHangUp(line.answered, line.cancel)
	}
	var refusal *status.Error
	if errors.As(err, &refusal) {
		c.answerSimple(nil, refusal)
		c.output.flush()
	}
	c.close(nil)
}

// hungUp reports whether the caller is gone. It is not if it has only ended its own
// direction, as `printf ... | socat` does, if it has sent something that is refused, or
// if the server is draining.
func (c *connection) hungUp(err error) bool {
	var refusal *status.Error
	if !errors.Is(err, io.EOF) && !errors.As(err, &refusal) {
		return !(c.calls.draining.Load() && isTimeout(err))
	}
	return c.isLeft()
}

// isLeft reports whether the caller has closed its socket, if that can be seen.
func (c *connection) isLeft() bool {
	socket, ok := c.carrier.(interface{ HungUp() bool })
	return ok && socket.HungUp()
}

// hangUpPoll is how often to look for that while nothing is read.
const hangUpPoll = 50 * time.Millisecond

// awaitOrHangUp waits for done. Meanwhile nothing is read from the caller, so it looks
// whether the caller hangs up, and calls cancel if it does.
func (c *connection) awaitOrHangUp(done <-chan struct{}, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(hangUpPoll)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			if c.isLeft() {
				cancel(io.EOF)
			}
		}
	}
}

// readSimpleMessage returns the next request, which is valid until the next one is read.
func (r *reader) readSimpleMessage() ([]byte, error) {
	c := r.connection
	need := simpleHeaderBytes
	for {
		have := r.input.unread()
		if len(have) >= simpleHeaderBytes {
			length := binary.BigEndian.Uint32(have)
			if length > uint32(c.server.config.frameBytesMax) {
				return nil, refusedf(status.ResourceExhausted, "a request of %d bytes (at most %d, limit frame_bytes_max); %s", length, c.server.config.frameBytesMax, raiseFrameBytes)
			}
			if length == 0 {
				return nil, refusedf(status.InvalidArgument, `a request of 0 bytes; send {"f": NAME, "a": [ARGUMENTS]}`)
			}
			need = simpleHeaderBytes + int(length)
		}
		if len(have) >= need && need > simpleHeaderBytes {
			r.input.advance(need)
			return have[simpleHeaderBytes:need], nil
		}
		c.output.flush()
		if r.simple.number == 0 {
			if err := r.boundFirst(); err != nil {
				return nil, err
			}
		}
		if err := r.receive(need); err != nil {
			return nil, err
		}
		r.simple.seenNs = r.nowNs
	}
}

// handleSimple runs a request, or puts it into the line. goOn is false if this goroutine
// is no longer the reader.
func (r *reader) handleSimple(message []byte) (goOn bool, err error) {
	c := r.connection
	if c.gate.Load() {
		return true, net.ErrClosed // an answer could not be written
	}
	r.simple.number++
	if !r.simple.line.isIdle() {
		return true, r.queueSimple(message)
	}
	request, err := parseSimpleRequest(message)
	if err != nil {
		return true, notSimple(err)
	}
	r.nowNs = c.server.clock.Ns()
	if r.nowNs-r.simple.seenNs > uint64(hangUpPoll) {
		// This caller has sent many requests ahead.
		if r.simple.seenNs = r.nowNs; c.isLeft() {
			return true, io.EOF
		}
	}
	f, timeout, refusal := c.admitSimple(&request)
	if refusal != nil {
		c.refuseSimple(f, &request, refusal)
		c.answerSimple(nil, refusal)
		return true, nil
	}
	if !f.inline() || c.mustHoldBack(f) && !c.output.promiseNow(c.toPromise(f)) {
		return true, r.queueSimple(message)
	}
	r.frame.CallID, r.frame.Codec, r.frame.Payload = r.simple.number, wire.CodecJSON, request.arguments
	r.inline.expiryNs = r.nowNs + uint64(timeout)
	r.begin(f, r.inline.expiryNs)
	return r.finishSimple(), nil
}

// finishSimple ends a call that the reader has begun, and reports whether this goroutine
// is still the reader.
func (r *reader) finishSimple() bool {
	c, e := r.connection, &r.inline
	stillReader := c.role.end(e.mark)
	doneNs := c.account(e, e.startedNs, false)
	if stillReader {
		e.cancel(context.Canceled)
		r.doneNs = doneNs
		e.answerSimple(e.result, e.err)
		e.context, e.payload, e.result = nil, nil, nil
		return true
	}
	c.calls.forget(e)
	if late := c.calls.lateOf(e); late != nil {
		close(late)
	} else if e.observed != nil {
		// The connection was closed meanwhile.
		e.observeEnd(status.FromError(e.err), len(e.result))
	}
	// This comes last, because awaitSimple would take a context that ends for a call that
	// is cancelled.
	e.cancel(context.Canceled)
	return false
}

// awaitSimple waits, within its deadline, for a call that the reader has begun and that
// turned out to be slow, and answers it.
func (c *connection) awaitSimple(ctx context.Context, e *execution) {
	within, release := e.within(ctx)
	defer release()
	if returnsWithin(within, e.late) {
		e.answerSimple(e.result, e.err)
	} else {
		e.answerSimple(nil, e.overdueIn(within))
	}
	c.output.flush()
}

// within returns the context in which to wait for a call of the simple protocol: it ends
// with ctx and at the deadline. It is the one that the function has, if it has any. release
// leaves neither a timer nor anything that waits for ctx.
func (e *execution) within(ctx context.Context) (_ context.Context, release func()) {
	if e.context == nil {
		return context.WithTimeout(ctx, time.Duration(e.expiryNs-e.server.clock.Ns()))
	}
	stop := context.AfterFunc(ctx, func() { e.cancel(context.Canceled) })
	return e.context, func() {
		stop()
		e.finish()
	}
}

// admitSimple returns the function that a request calls and how long the call may take,
// or why the request is refused.
func (c *connection) admitSimple(request *simpleRequest) (*function, time.Duration, error) {
	f := c.service.table.byName[string(request.function)]
	if f == nil {
		return nil, 0, c.server.noSuchFunction(string(request.function))
	}
	if refusal := f.refuses(c.names); refusal != nil {
		return f, 0, refusal
	}
	if refusal := request.checkDescription(f); refusal != nil {
		return f, 0, refusal
	}
	timeout := wire.CallTimeoutMs * time.Millisecond
	if request.hasTimeout {
		timeout = time.Duration(min(request.timeoutMs, float64(1<<31)) * float64(time.Millisecond))
	}
	if timeout <= 0 {
		return f, 0, refusedf(status.DeadlineExceeded, "the timeout of %v had passed before the call began", timeout)
	}
	return f, timeout, nil
}

// refuseSimple tells the observer, if there is one, of a request that was refused.
func (c *connection) refuseSimple(f *function, request *simpleRequest, refusal error) {
	if c.server.config.observer != nil {
		c.observeRefusedCall(f, len(request.arguments), status.FromError(refusal))
	}
}

// checkDescription refuses a request that was written for another description of the
// function.
func (r *simpleRequest) checkDescription(f *function) error {
	switch {
	case !r.hasDescription:
		return nil
	case len(r.description) < simpleHashDigitsMin || !schema.IsHashPrefix(r.description):
		return refusedf(status.InvalidArgument, `"d" is %.80q: it must be the function's hash, or at least its first %d hexadecimal digits, in lower case`, r.description, simpleHashDigitsMin)
	case !strings.HasPrefix(f.Description().Hash, r.description):
		return otherDescription(f.name)
	}
	return nil
}
