package backend

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
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
	// Where nobody listens an attempt to connect has failed by then.
	refusedWithin = 50 * time.Millisecond
)

// A Socket is where one process of a backend listens. It keeps a channel to it.
type Socket struct {
	address string
	set     *Set
	options []handoff.Option

	// lane is nil while nobody is there that takes connections.
	lane   atomic.Pointer[lane]
	wanted atomic.Int32
	// retired is set when no process will come any more.
	retired atomic.Bool
	kick    chan struct{}
	stop    context.CancelFunc
	ended   chan struct{}

	// The room of the set guards these: who waits, since when nobody is there, and
	// since when it is being tried.
	waiting list.List
	absent  time.Time
	dialing time.Time
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

// dial waits for a process that is busy: it answers when it is done. The kernel refuses
// for one that is not there.
func (s *Socket) dial(ctx context.Context) (*handoff.Peer, error) {
	s.setDialing(time.Now())
	peer, err := handoff.Dial(ctx, s.address, s.options...)
	if busy := isTimeout(err) || errors.Is(err, syscall.EAGAIN); err != nil && !busy {
		s.setDialing(time.Time{})
	}
	return peer, err
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// setDialing notes since when somebody is tried; the zero time: nobody is there.
func (s *Socket) setDialing(since time.Time) {
	s.set.room.Lock()
	defer s.set.room.Unlock()
	switch {
	case since.IsZero():
		if time.Since(s.dialing) > refusedWithin {
			s.absent = time.Now()
		}
		s.dialing = since
	case s.dialing.IsZero():
		s.dialing = since
	}
}

// setLane offers a channel, or takes it away.
func (s *Socket) setLane(l *lane) {
	s.set.room.Lock()
	defer s.set.room.Unlock()
	if l == nil {
		s.absent = time.Now()
	}
	s.dialing = time.Time{}
	s.lane.Store(l)
	s.offer()
}

// serve offers the channel until it ends; true tells that it lasted.
func (s *Socket) serve(ctx context.Context, peer *handoff.Peer) (lasted bool) {
	since := time.Now()
	s.log().Info("a process takes connections", "pid", peer.Credentials().ProcessID)
	s.setLane(newLane(s, peer))
	select {
	case <-ctx.Done():
		// What is on its way goes on; whoever retires the socket closes it.
		return false
	case <-peer.Done():
	}
	s.setLane(nil)
	s.log().Info("the process takes no more connections", "reason", peer.Err())
	s.set.farewells.Go(func() {
		s.farewell(peer)
		// What it was offered and did not take goes to others.
		peer.Close()
	})
	return time.Since(since) > stable
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
	s.setDialing(time.Time{})
	defer s.set.came.tell()
	l := s.lane.Load()
	if l == nil {
		return
	}
	s.set.farewells.Go(func() {
		timer := time.NewTimer(s.set.timeouts.Load().HandBack)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.peer.Ended():
		case <-s.set.ctx.Done():
		}
		s.setLane(nil)
		l.peer.Close()
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

func (s *Socket) log() *slog.Logger { return s.set.options.Log.With("socket", s.address) }

// reason is why a process did not take a connection, in one word for the metrics.
func reason(err error) string {
	switch {
	case errors.Is(err, handoff.ErrDraining):
		return "draining"
	case errors.Is(err, handoff.ErrNoDescriptor):
		return "no_descriptor"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled): // refused, too, where the process said that it came back
		return "cancelled"
	case errors.Is(err, handoff.ErrRefused):
		return "refused"
	}
	return "ended"
}
