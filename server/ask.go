package server

import (
	"errors"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// errAsked is why a connection is closed whose caller asks over another one what became of
// its calls.
var errAsked = errors.New("its caller has lost it, and asks over another connection what became of its calls")

// askMargin is how long before its deadline an ASK is answered at the latest.
const askMargin = 20 * time.Millisecond

// keepHistory makes the connection one that its caller can ask about after it has ended.
func (c *connection) keepHistory() *history {
	h := c.server.histories.begin(c.user.account, &c.calls.accepted, func() { c.close(errAsked) })
	c.calls.keep(h)
	return h
}

// beginMarks makes start marks for the calls of a connection that can be asked about.
func (r *reader) beginMarks() {
	h := r.connection.calls.history
	if h == nil || r.marks != nil {
		return
	}
	count := wire.KeptMarks
	if !r.connection.peer.Local {
		count = wire.KeptMarksRemote
	}
	r.marks = h.begin(count)
}

// onAsk answers a caller that asks what became of calls on another connection. That connection
// is closed first, so that what was not started never will be. The answer may have to wait until
// functions return, if the limits of calls in flight have room for that. It waits for nothing else:
// neither limits of the user nor a drain, because a server that is full or stopping is one whose
// connections get lost.
func (r *reader) onAsk() (bool, error) {
	c, id := r.connection, r.frame.CallID
	key, ids, err := wire.ParseAsk(r.frame.Payload)
	if err != nil {
		return true, err
	}
	c.calls.accept(id)
	c.server.counters.asks.Add(1)
	if key == c.calls.history.key {
		c.sendFailure(id, refusedf(status.InvalidArgument, "ASK is about calls of another connection, and names its own"))
		return true, nil
	}
	h := c.server.histories.find(key)
	c.server.config.logger.Debug("a caller asks what became of calls", "peer", c.peer.String(), "calls", len(ids), "known", h != nil)
	if h == nil {
		c.answerAsk(id, notKept(len(ids)), nil)
		return true, nil
	}
	h.stopConnection()
	stages, changed := h.look(ids)
	if limit := r.askLimit(); limit > 0 && changed != nil && c.calls.beginAsk() {
		go c.awaitAsked(id, h, ids, limit)
		return true, nil
	}
	c.answerAsk(id, stages, nil)
	return true, nil
}

// askLimit returns for how long the answer to the ASK in r.frame may wait.
func (r *reader) askLimit() time.Duration {
	r.nowNs = r.connection.server.clock.Ns()
	limit := wire.AskWaitMs * time.Millisecond
	if expiryNs, _ := r.expiry(); expiryNs != 0 {
		limit = min(limit, time.Duration(expiryNs-r.nowNs)-askMargin)
	}
	return limit
}

// awaitAsked answers an ASK when the functions that it asks about have returned, or after a limit.
func (c *connection) awaitAsked(id uint64, h *history, ids []uint64, limit time.Duration) {
	defer c.calls.running.Done()
	c.answerAsk(id, h.await(ids, limit), c.calls.endAsk)
	c.output.flush()
}

// answerAsk sends the answer to an ASK, for which there is always room. For admitted see
// output.append.
func (c *connection) answerAsk(id uint64, stages []byte, admitted func()) {
	c.output.append(&wire.Header{Type: wire.Reply, CallID: id}, stages, admitted)
}

// notKept says of so many calls that nothing is known of them.
func notKept(calls int) []byte {
	stages := make([]byte, calls)
	for i := range stages {
		stages[i] = byte(wire.StageNotKept)
	}
	return stages
}
