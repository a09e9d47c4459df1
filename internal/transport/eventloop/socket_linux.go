package eventloop

import (
	"errors"
	"net"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/rights"
)

// A socket is a descriptor that keeps its number until nobody uses it: it would be
// another file's otherwise, between a goroutine's look at it and its system call.
type socket struct {
	number int
	users  atomic.Int32 // how many, and socketClosed

	// careful: descriptors may come, or may have come, expected or not.
	careful atomic.Bool
}

const socketClosed = 1 << 30

// use keeps the number as it is until leave. It fails with net.ErrClosed.
func (s *socket) use() error {
	for {
		users := s.users.Load()
		if users&socketClosed != 0 {
			return net.ErrClosed
		}
		if s.users.CompareAndSwap(users, users+1) {
			return nil
		}
	}
}

func (s *socket) leave() {
	if s.users.Add(-1) == socketClosed {
		s.release()
	}
}

// close closes the descriptor as soon as nobody uses it; others fail from now on. It
// is to be called once.
func (s *socket) close() {
	if s.users.Add(socketClosed) == socketClosed {
		s.release()
	}
}

// refuse is for a local socket: neither credentials are to come with each read nor descriptors.
func (s *socket) refuse() error {
	err := rights.RefuseCredentials(s.number)
	if rights.Refuse(s.number) {
		return err
	}
	return errors.Join(err, s.beCareful())
}

// beCareful is for as long as the socket lives: see package rights.
func (s *socket) beCareful() error {
	s.careful.Store(true)
	return rights.Expect(s.number)
}

func (s *socket) release() {
	if s.careful.Load() {
		rights.Drain(s.number)
	}
	// What could not be written is the peer's to miss.
	_ = unix.Close(s.number)
}
