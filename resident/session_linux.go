package resident

import (
	"context"
	"sync"
	"syscall"

	"github.com/nearcall/nearcall/resident/internal/channel"
	"github.com/nearcall/nearcall/resident/internal/request"
)

// A session is the connection of a run to its launcher.
type session struct {
	conn   *channel.Conn
	signal func(syscall.Signal) // called when the launcher has sent a signal
	gone   func()               // called when the launcher has ended

	mu   sync.Mutex
	over bool // set when the run is over: what arrives no longer concerns it

	executing chan struct{} // held while a program runs on the caller's side
	executed  chan syscall.WaitStatus
	ended     chan struct{} // closed when nothing more will arrive
}

func newSession(conn *channel.Conn) *session {
	return &session{conn: conn, executing: make(chan struct{}, 1), executed: make(chan syscall.WaitStatus, 1), ended: make(chan struct{})}
}

// read passes on what the launcher sends, until the connection ends.
func (s *session) read() {
	defer s.whileRunning(s.gone)
	defer close(s.ended)
	for {
		frame, err := s.conn.Read()
		if err != nil {
			return
		}
		switch frame.Type {
		case request.Signal:
			s.whileRunning(func() { s.signal(syscall.Signal(frame.Value)) })
		case request.Executed:
			select {
			case s.executed <- syscall.WaitStatus(frame.Value):
			default:
				return // nobody has asked for it
			}
		default:
			return
		}
	}
}

// whileRunning calls f unless the run is over, and keeps it from ending meanwhile.
func (s *session) whileRunning(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		f()
	}
}

// end ends the run. It returns false if the run was already over.
func (s *session) end() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.over
	s.over = true
	return first
}

func (s *session) execute(ctx context.Context, arguments []string) (int, error) {
	frame, err := request.ExecuteFrame(arguments)
	if err != nil {
		return 0, err
	}
	select {
	case s.executing <- struct{}{}:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if err := s.conn.Write(frame); err != nil {
		<-s.executing
		return 0, err
	}
	select {
	case status := <-s.executed:
		<-s.executing
		return executedCode(status), nil
	case <-s.ended:
		<-s.executing
		return 0, ErrCallerGone
	case <-ctx.Done():
		go s.awaitExecuted()
		return 0, context.Cause(ctx)
	}
}

// awaitExecuted waits for the end of a program for which nobody waits any more, and
// then lets the next one start.
func (s *session) awaitExecuted() {
	select {
	case <-s.executed:
	case <-s.ended:
	}
	<-s.executing
}

func executedCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return signalledCode + int(status.Signal())
	}
	return status.ExitStatus()
}
