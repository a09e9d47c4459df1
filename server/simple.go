package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

const (
	simpleHeaderBytes = 4
	// The number of bytes in an answer besides its result.
	simpleAnswerBytes = len(simpleAnswerStart) + 1
	simpleAnswerStart = `{"ok":true,"r":`
	// A shorter beginning of a hash would not distinguish enough descriptions.
	simpleHashDigitsMin = 8
)

type simpleFailure struct {
	Code    status.Code `json:"code"`
	Name    string      `json:"name"`
	Message string      `json:"message"`
	Outcome string      `json:"outcome"`
	Details [][2]any    `json:"details,omitempty"`
}

// serveSimple serves a connection that speaks the simple protocol: requests run one at
// a time and are answered in order. While one runs, further ones are read, so that a
// caller that hangs up is noticed.
func (r *reader) serveSimple() {
	c := r.connection
	c.agreed.frameBytesMax = c.server.config.frameBytesMax
	if c.server.config.observer != nil {
		c.observeOpening()
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	requests := newSimpleQueue(c.server.config.frameBytesMax)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for number := uint64(1); ; number++ {
			message, found := requests.take()
			if !found {
				return
			}
			c.runSimple(ctx, number, message)
			c.user.input.giveBack(int64(simpleHeaderBytes + len(message)))
		}
	}()
	err := r.readSimple(requests, cancel)
	if c.hungUp(err) {
		cancel(err)
	}
	requests.close()
	c.awaitOrHangUp(answered, cancel)
	var refusal *status.Error
	if errors.As(err, &refusal) {
		c.answerSimple(nil, refusal)
	}
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

// readSimple passes on requests until the caller ends or breaks the protocol.
func (r *reader) readSimple(requests *simpleQueue, cancel context.CancelCauseFunc) error {
	for {
		message, err := r.readSimpleMessage()
		if err != nil {
			return err
		}
		if !requests.hasRoom(message) {
			room := make(chan struct{})
			go func() {
				defer close(room)
				requests.awaitRoom(message)
			}()
			r.connection.awaitOrHangUp(room, cancel)
		}
		requests.put(message)
	}
}

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
			need = simpleHeaderBytes + int(length)
		}
		if len(have) >= need && need > simpleHeaderBytes {
			if !c.user.input.take(int64(need)) {
				return nil, c.user.input.refusal(int64(need))
			}
			r.input.advance(need)
			return bytes.Clone(have[simpleHeaderBytes:need]), nil
		}
		if len(have) >= simpleHeaderBytes && need == simpleHeaderBytes {
			return nil, refusedf(status.InvalidArgument, `a request of 0 bytes; send {"f": NAME, "a": [ARGUMENTS]}`)
		}
		if err := r.receive(need); err != nil {
			return nil, err
		}
	}
}

// runSimple runs one request and answers it. Requests are numbered because those of the
// simple protocol have no ids.
func (c *connection) runSimple(ctx context.Context, number uint64, message []byte) {
	request, err := parseSimpleRequest(message)
	if err != nil {
		c.answerSimple(nil, refusedf(status.InvalidArgument, `not a request: send {"f": NAME, "a": [ARGUMENTS]} (%s)`, err))
		c.close(nil)
		return
	}
	result, err := c.callSimple(ctx, number, request)
	if err == nil && len(result) > c.agreed.frameBytesMax-simpleAnswerBytes {
		err = status.Errorf(status.ResourceExhausted, "the result has %d bytes (at most %d, limit frame_bytes_max); %s", len(result), c.agreed.frameBytesMax, raiseFrameBytes).With(status.OutcomeExecutedResultLost)
	}
	c.answerSimple(result, err)
}

func (c *connection) callSimple(ctx context.Context, number uint64, request *simpleRequest) ([]byte, error) {
	e, refusal := c.newSimple(ctx, number, request)
	if refusal != nil {
		if c.server.config.observer != nil {
			c.observeRefusedCall(c.service.table.byName[request.Function], len(request.Arguments), status.FromError(refusal))
		}
		return nil, refusal
	}
	stop := context.AfterFunc(ctx, func() { e.cancel(context.Canceled) })
	defer stop()
	return e.runSimple()
}

// newSimple returns the execution of a request, or why the request is refused.
func (c *connection) newSimple(ctx context.Context, number uint64, request *simpleRequest) (*execution, error) {
	if ctx.Err() != nil {
		return nil, notStarted(context.Canceled)
	}
	f := c.service.table.byName[request.Function]
	if f == nil {
		return nil, noSuchFunction(request.Function)
	}
	if refusal := request.checkDescription(f); refusal != nil {
		return nil, refusal
	}
	timeout := wire.CallTimeoutMs * time.Millisecond
	if request.TimeoutMs != nil {
		timeout = time.Duration(min(*request.TimeoutMs, float64(1<<31)) * float64(time.Millisecond))
	}
	if timeout <= 0 {
		return nil, refusedf(status.DeadlineExceeded, "the timeout of %v had passed before the call began", timeout)
	}
	deadline := time.Now().Add(timeout)
	if c.mustHoldBack(f) {
		if refusal := c.holdBack(f, timeout, ctx.Done()); refusal != nil {
			return nil, refusal
		}
	}
	e := &execution{server: c.server, connection: c, id: number, function: f, codec: wire.CodecJSON, payload: request.Arguments}
	if len(e.payload) == 0 {
		e.payload = []byte("[]")
	}
	e.context = &callContext{function: f.name, peer: &c.peer, deadline: deadline, values: c.service.values}
	return e, nil
}

// checkDescription refuses a request that was written for another description of the
// function.
func (r *simpleRequest) checkDescription(f *function) error {
	switch {
	case r.Description == nil:
		return nil
	case len(*r.Description) < simpleHashDigitsMin || !schema.IsHashPrefix(*r.Description):
		return refusedf(status.InvalidArgument, `"d" is %.80q: it must be the function's hash, or at least its first %d hexadecimal digits, in lower case`, *r.Description, simpleHashDigitsMin)
	case !strings.HasPrefix(f.Description().Hash, *r.Description):
		return otherDescription(f.name)
	}
	return nil
}

// runSimple runs a call within its deadline, which nobody else keeps for callers of the
// simple protocol. A function that goes on counts until it returns.
func (e *execution) runSimple() ([]byte, error) {
	if e.server.config.observer == nil {
		return e.runInTime()
	}
	e.observeBegin(e.connection.observed.Load())
	result, err := e.runInTime()
	e.observeEnd(status.FromError(err), len(result))
	return result, err
}

func (e *execution) runInTime() ([]byte, error) {
	c := e.connection
	if refusal := c.calls.remember(e); refusal != nil {
		return nil, refusal
	}
	finish := func() {
		c.calls.forget(e)
		c.calls.running.Done()
	}
	if err := e.enter(); err != nil {
		finish()
		return nil, err
	}
	if limit := e.function.maxRunTime; limit > 0 {
		e.context.shorten(time.Now().Add(limit))
	}
	if late := e.runWithin(); late != nil {
		go func() {
			<-late
			finish()
		}()
		return nil, e.overdue()
	}
	finish()
	e.function.expect(len(e.result))
	return e.result, e.err
}

// answerSimple writes one answer.
func (c *connection) answerSimple(result []byte, err error) {
	body := append([]byte(simpleAnswerStart), result...)
	if err == nil {
		body = append(body, '}')
	} else {
		failure := status.FromError(err)
		if body = appendSimpleFailure(nil, failure); len(body) > c.server.config.frameBytesMax {
			body = appendSimpleFailure(nil, withoutDetails(failure))
		}
	}
	if !c.sendSimple(body) {
		c.sendSimple(appendSimpleFailure(nil, withoutDetails(c.user.output.lost("the call", int64(len(body))))))
	}
	c.output.flush()
}

func (c *connection) sendSimple(body []byte) bool {
	return c.output.raw(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
}

func appendSimpleFailure(dst []byte, failure *status.Error) []byte {
	told := simpleFailure{Code: failure.Code, Name: failure.Code.String(), Message: codec.CutMessage(failure.Message), Outcome: failure.Outcome.String()}
	for _, detail := range failure.Details {
		told.Details = append(told.Details, [2]any{detail.Type, detail.Value})
	}
	text, err := json.Marshal(told)
	if err != nil {
		told.Details = nil
		text, _ = json.Marshal(told)
	}
	return fmt.Appendf(dst, `{"ok":false,"e":%s}`, text)
}
