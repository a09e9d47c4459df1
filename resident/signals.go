package resident

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

const signalsWaiting = 16

// signals handles the signals of one run. They come to the process, or from the
// launcher.
type signals struct {
	ofProcess bool
	cancel    context.CancelCauseFunc

	mu       sync.Mutex
	stopped  bool           // the run is over, and its goroutines must not get signals of another
	watched  chan os.Signal // ends the context; nil until somebody uses the context
	received chan os.Signal // what Signals has returned; nil before that
	done     chan struct{}
}

// newSignals returns a run's signals and its context.
func newSignals(parent context.Context, ofProcess bool) (*signals, context.Context) {
	ctx, cancel := context.WithCancelCause(parent)
	s := &signals{ofProcess: ofProcess, cancel: cancel, done: make(chan struct{})}
	return s, runContext{ctx, s}
}

// A runContext takes signals over once it is used. A program that does not use it is
// ended by them, as it would be without Nearcall.
type runContext struct {
	context.Context
	signals *signals
}

func (c runContext) Done() <-chan struct{} {
	c.signals.watch()
	return c.Context.Done()
}

func (c runContext) Err() error {
	c.signals.watch()
	return c.Context.Err()
}

// ends reports whether a signal ends a context.
func ends(s os.Signal) bool { return s == os.Interrupt || s == syscall.SIGTERM || s == syscall.SIGHUP }

func (s *signals) watch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watched != nil || s.stopped {
		return
	}
	s.watched = make(chan os.Signal, 1)
	if !s.ofProcess {
		return
	}
	signal.Notify(s.watched, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case received := <-s.watched:
			signal.Stop(s.watched) // the next signal ends the process
			s.cancel(&SignalError{received})
		case <-s.done:
		}
	}()
}

func (s *signals) channel() <-chan os.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.received == nil {
		s.received = make(chan os.Signal, signalsWaiting)
		if s.ofProcess && !s.stopped {
			signal.Notify(s.received, passedOn()...)
		}
	}
	return s.received
}

// deliver handles a signal that the launcher has sent. It returns false if the program
// does not handle the signal, or if it was told once before and goes on.
func (s *signals) deliver(received os.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.received != nil
	if taken {
		select {
		case s.received <- received:
		default:
		}
	}
	if s.watched != nil && ends(received) {
		select {
		case s.watched <- received:
			s.cancel(&SignalError{received})
			taken = true
		default:
		}
	}
	return taken
}

// stop gives the signals back to the process, and ends the context.
func (s *signals) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ofProcess {
		for _, c := range []chan os.Signal{s.watched, s.received} {
			if c != nil {
				signal.Stop(c)
			}
		}
	}
	s.stopped = true
	close(s.done)
	s.cancel(nil)
}
