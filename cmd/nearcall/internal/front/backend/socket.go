package backend

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/handoff"
)

const (
	// A process that is started anew is back within milliseconds, so the first
	// attempts come quickly; so do all while a connection waits.
	redialLeast  = 5 * time.Millisecond
	redialWanted = 20 * time.Millisecond
	redialMost   = time.Second
	// A channel that lasted so long was a good one: the next attempt is a first one.
	stable = time.Second
	// A process that lets connections wait in vain is given one so often.
	shunnedFor = 5 * time.Second
)

// A Socket is where one process of a backend listens. It keeps a channel to it.
type Socket struct {
	address string
	set     *Set
	options []handoff.Option

	// peer is nil while nobody is there that takes connections.
	peer   atomic.Pointer[handoff.Peer]
	wanted atomic.Int32
	// shunned is until when, in Unix nanoseconds, others are preferred.
	shunned atomic.Int64
	// retired is set when no process will come any more.
	retired atomic.Bool
	kick    chan struct{}
	stop    context.CancelFunc
	ended   chan struct{}
}

// Address is where the process listens.
func (s *Socket) Address() string { return s.address }

// keep dials until stopped, and again whenever the channel has ended.
func (s *Socket) keep(ctx context.Context) {
	defer close(s.ended)
	delay := redialLeast
	down := false
	for ctx.Err() == nil {
		peer, err := s.dial(ctx)
		if err != nil {
			if !down && ctx.Err() == nil {
				s.log().Warn("no process to give connections to", "error", err)
			}
			down = true
			delay = s.rest(ctx, delay)
			continue
		}
		if since := time.Now(); s.serve(ctx, peer) {
			delay = redialLeast
		} else if delay = s.rest(ctx, delay); time.Since(since) > stable {
			delay = redialLeast
		}
		down = false
	}
}

func (s *Socket) dial(ctx context.Context) (*handoff.Peer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.set.options.Health)
	defer cancel()
	return handoff.Dial(ctx, s.address, s.options...)
}

// serve offers the channel until it ends; true tells that it lasted.
func (s *Socket) serve(ctx context.Context, peer *handoff.Peer) (lasted bool) {
	since := time.Now()
	s.log().Info("a process takes connections", "pid", peer.Credentials().ProcessID)
	s.peer.Store(peer)
	s.set.came.tell()
	err, hung := s.watch(ctx, peer)
	if ctx.Err() != nil {
		// What is on its way goes on; whoever retires the socket closes it.
		return false
	}
	s.peer.Store(nil)
	s.log().Info("the process takes no more connections", "reason", err)
	s.set.farewells.Go(func() {
		if !hung {
			s.farewell(peer)
		}
		// What it was offered and did not take goes to others.
		peer.Close()
	})
	return time.Since(since) > stable
}

// watch returns when the process takes no more: it ended, drains, or hangs.
func (s *Socket) watch(ctx context.Context, peer *handoff.Peer) (reason error, hung bool) {
	ticker := time.NewTicker(s.set.options.Health)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err(), false
		case <-peer.Done():
			return peer.Err(), false
		case <-ticker.C:
		}
		if err := s.ping(ctx, peer); err != nil && ctx.Err() == nil {
			return err, true
		}
	}
}

func (s *Socket) ping(ctx context.Context, peer *handoff.Peer) error {
	ctx, cancel := context.WithTimeout(ctx, s.set.options.Health)
	defer cancel()
	return peer.Ping(ctx)
}

// farewell keeps the channel of a process that drains open until the process ends
// it: connections that it serves may still come back.
func (s *Socket) farewell(peer *handoff.Peer) {
	select {
	case <-peer.Ended():
	case <-s.set.ctx.Done():
	}
}

// retire ends the dialling, and leaves the channel for a while to what is on its way
// and to what comes back.
func (s *Socket) retire() {
	s.stop()
	<-s.ended
	s.retired.Store(true)
	defer s.set.came.tell()
	peer := s.peer.Load()
	if peer == nil {
		return
	}
	s.set.farewells.Go(func() {
		timer := time.NewTimer(s.set.options.HandBack)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-peer.Ended():
		case <-s.set.ctx.Done():
		}
		s.peer.Store(nil)
		peer.Close()
		s.set.came.tell()
	})
}

// rest waits before the next attempt, and returns how long to wait the time after.
func (s *Socket) rest(ctx context.Context, delay time.Duration) (next time.Duration) {
	if s.wanted.Load() > 0 {
		delay = min(delay, redialWanted)
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-s.kick:
		return redialLeast
	}
	return min(2*delay, redialMost)
}

// want says that a connection waits for this socket, or no longer does.
func (s *Socket) want(change int32) {
	if s.wanted.Add(change) == 1 && change > 0 {
		select {
		case s.kick <- struct{}{}:
		default:
		}
	}
}

// note remembers that the process let a connection wait until it was asked back.
func (s *Socket) note(err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		s.shunned.Store(time.Now().Add(shunnedFor).UnixNano())
	}
}

// burden is added to the unanswered connections of a process when the one with the
// fewest is chosen.
func (s *Socket) burden() int {
	const more = 1 << 20 // than any window
	if until := s.shunned.Load(); until != 0 && time.Now().UnixNano() < until {
		return more
	}
	return 0
}

func (s *Socket) log() *slog.Logger { return s.set.options.Log.With("socket", s.address) }

// reason is why a process did not take a connection, in one word for the metrics.
func reason(err error) string {
	switch {
	case errors.Is(err, handoff.ErrDraining):
		return "draining"
	case errors.Is(err, handoff.ErrNoDescriptor):
		return "no_descriptor"
	case errors.Is(err, handoff.ErrRefused):
		return "refused"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	return "ended"
}
