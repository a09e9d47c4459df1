package client

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// A pingTable holds the pings that wait for an answer, by the number in their payload.
type pingTable struct {
	waiting map[uint64]chan struct{}
	last    uint64
	// awaited counts those for which somebody waits.
	awaited int
}

const pingPayloadBytes = 8

// Ping asks the server for a sign of life and returns how long the answer took. It
// connects if there is no connection. Its deadline is that of a call.
func (c *Client) Ping(ctx context.Context) (roundTrip time.Duration, err error) {
	r := c.take()
	defer c.core.give(r)
	r.frameType = wire.Ping
	failure := c.core.retry(ctx, r)
	return r.roundTrip, asError(failure)
}

// ping sends a ping and waits for its answer, as exchange does with a call.
func (c *connection) ping(ctx context.Context, r *call) (failure *status.Error, usable bool) {
	pong, start := make(chan struct{}), time.Now()
	c.mu.Lock()
	if c.leaving {
		c.mu.Unlock()
		return nil, false
	}
	number := c.pings.add(pong)
	c.pings.awaited++
	if c.silence.limit > 0 {
		c.watchSilence()
	}
	idle := c.recallStandby()
	payload := binary.LittleEndian.AppendUint64(nil, number)
	writer := c.appendLocked(&wire.Frame{Header: wire.Header{Type: wire.Ping}, Payload: payload})
	c.mu.Unlock()
	if writer {
		c.flush()
	}
	defer c.forgetPing(number)
	timer := c.client.timer(r.deadlineNs)
	defer timer.Stop()
	select {
	case <-pong:
		r.roundTrip = time.Since(start)
		return nil, true
	case <-c.ended:
		if idle {
			return nil, false
		}
		failure = notExecuted(status.Unavailable, "the connection to %s was lost before it answered a ping", c.endpoint.address)
	case <-ctx.Done():
		failure = endOfWaiting(ctx, "while waiting for the answer to a ping").With(status.OutcomeNotExecuted)
	case <-timer.C:
		failure = endOfWaiting(ctx, "while waiting for the answer to a ping").With(status.OutcomeNotExecuted)
	}
	return failure, true
}

// forgetPing is called when nobody waits for the answer to a ping any more.
func (c *connection) forgetPing(number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pings.waiting, number)
	c.pings.awaited--
}

func (t *pingTable) add(pong chan struct{}) uint64 {
	if t.waiting == nil {
		t.waiting = map[uint64]chan struct{}{}
	}
	t.last++
	t.waiting[t.last] = pong
	return t.last
}

// handlePong hands an answer to the ping that waits for it, and ignores the answers to
// pings that were given up.
func (c *connection) handlePong(frame *wire.Frame) error {
	var number uint64
	if len(frame.Payload) == pingPayloadBytes {
		number = binary.LittleEndian.Uint64(frame.Payload)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if number == 0 || number > c.pings.last {
		return &wire.ProtocolError{Text: fmt.Sprintf("PONG with payload %x, which no PING had", frame.Payload)}
	}
	if pong, ok := c.pings.waiting[number]; ok {
		delete(c.pings.waiting, number)
		close(pong)
	}
	return nil
}
