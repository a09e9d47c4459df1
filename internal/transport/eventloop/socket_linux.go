package eventloop

import (
	"net"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A socket is a descriptor that keeps its number until nobody uses it: it would be
// another file's otherwise, between a goroutine's look at it and its system call.
type socket struct {
	number int
	users  atomic.Int32 // how many, and socketClosed
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

func (s *socket) release() {
	// What could not be written is the peer's to miss.
	_ = unix.Close(s.number)
}
