package client

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/wire"
)

const (
	askAfter = wire.PeerAskMs * time.Millisecond
	// askShare is the part of a silence after which the server is asked at the latest, so that
	// its answer has the rest.
	askShare = 3
)

// A silence notices a server that says nothing while calls wait for it: it is asked (PING)
// when nothing has come for ask, and the connection has ended when nothing has come for
// limit. It is for other machines only: a server of this one that does not answer was
// stopped, and may go on. A server that drains reads nothing any more, so it cannot be asked,
// and is not silent: it answers the calls that it has accepted when they end.
type silence struct {
	limit, ask time.Duration // limit is 0: off
	// heardNs is when something came last. Only the goroutine that reads sets it.
	heardNs atomic.Uint64

	// These are guarded by connection.mu. sinceNs is when calls began to wait, or when the
	// server's host took more of what is being sent, and askedNs was heardNs, or sinceNs, when
	// the server was asked last. acknowledged is how much that host had taken then.
	timer        *time.Timer
	armed        bool
	sinceNs      uint64
	askedNs      uint64
	acknowledged uint64
}

// A silentError is why a connection has ended on which nothing came for so long.
type silentError struct{ limit time.Duration }

// Error implements error.
func (e *silentError) Error() string {
	return fmt.Sprintf("nothing came from the server for %v while a call waited; the server, its machine or the way there is gone", e.limit)
}

// Is makes it errNoAnswer: an endpoint that is silent is left alone until it answers.
func (e *silentError) Is(target error) bool { return target == errNoAnswer }

func (s *silence) init(limit time.Duration, nowNs uint64) {
	if limit > 0 {
		s.limit, s.ask = limit, min(askAfter, limit/askShare)
		s.heardNs.Store(nowNs)
	}
}

// setSilence sets the silence of all endpoints: what the option says, or what an endpoint's
// parameter says. A caller that has other endpoints should go there soon.
func (c *config) setSilence(list address.List) {
	for _, group := range list.Groups {
		for i := range group {
			at := &group[i]
			switch {
			case c.silence != 0:
				at.Silence = c.silence
			case at.Silence == 0 && list.Count() > 1:
				at.Silence = wire.TcpSilenceMs * time.Millisecond
			}
		}
	}
}

// heard notes that something has come. The goroutine that reads calls it.
func (c *connection) heard() {
	if c.silence.limit > 0 {
		c.silence.heardNs.Store(c.client.clock.Ns())
	}
}

// awaitedLocked returns how many calls and pings wait for the server. Preconditions: c.mu is held.
func (c *connection) awaitedLocked() int { return c.calls.waiting + c.pings.awaited }

// watchSilence makes sure that silence is noticed from now on, when a call or a ping has begun to wait.
// Preconditions: c.mu is held.
func (c *connection) watchSilence() {
	s := &c.silence
	if c.awaitedLocked() == 1 {
		s.sinceNs = c.client.clock.Ns()
	}
	if s.armed {
		return
	}
	s.armed = true
	if s.timer == nil {
		s.timer = time.AfterFunc(s.ask, c.lookForSilence)
		return
	}
	s.timer.Reset(s.ask)
}

// lookForSilence is what the timer does. It goes on while calls wait, until the connection is left.
func (c *connection) lookForSilence() {
	c.mu.Lock()
	s := &c.silence
	if c.awaitedLocked() == 0 || c.leaving {
		s.armed = false
		c.mu.Unlock()
		return
	}
	lastNs := c.lastSignNs()
	quiet := time.Duration(c.client.clock.Ns() - lastNs)
	if quiet >= s.limit && s.askedNs == lastNs {
		s.armed = false
		c.mu.Unlock()
		why := &loss{cause: &silentError{s.limit}}
		c.close(why)
		c.endpoint.noteSilence(why)
		return
	}
	writer, next := false, s.ask-quiet
	if quiet >= s.ask {
		next = s.limit - quiet
		if s.askedNs != lastNs {
			// If this side was late, the server has as much time to answer all the same.
			next = s.limit - s.ask
			s.askedNs = lastNs
			writer = c.askLocked()
		}
	}
	s.timer.Reset(next)
	c.mu.Unlock()
	if writer {
		c.flush()
	}
}

// lastSignNs returns when the server was last known to be there. A server says nothing while it
// receives a large request, for which a slow way may need long: then its host's taking more of it
// is a sign. Preconditions: c.mu is held.
func (c *connection) lastSignNs() uint64 {
	s := &c.silence
	lastNs := max(s.heardNs.Load(), s.sinceNs)
	if nowNs := c.client.clock.Ns(); c.looks != nil && nowNs >= lastNs+uint64(s.ask) {
		bytes, ago, sending := c.looks.Acknowledged()
		if sending && bytes != s.acknowledged {
			s.sinceNs = max(lastNs, nowNs-uint64(ago))
			lastNs = s.sinceNs
		}
		s.acknowledged = bytes
	}
	return lastNs
}

// askLocked sends a PING that nobody waits for: whatever comes ends the silence. Its result is
// that of appendLocked. Preconditions: c.mu is held.
func (c *connection) askLocked() (writer bool) {
	number := c.pings.add(make(chan struct{}))
	return c.appendLocked(&wire.Frame{Header: wire.Header{Type: wire.Ping}, Payload: binary.LittleEndian.AppendUint64(nil, number)})
}

func (s *silence) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}
