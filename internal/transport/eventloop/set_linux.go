package eventloop

import (
	"context"
	"net"
	"os"
	"sync"

	"github.com/cloudwego/netpoll"
	"golang.org/x/sys/unix"
)

// eventsAtOnce is how many events are taken from the kernel in one call.
const eventsAtOnce = 128

// What connections are watched for. Each event is told once, so that nothing need be
// undone while a connection is read. Room to write is watched for only while
// somebody waits for it: otherwise each reply that a caller takes would be told.
const (
	watchReading = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET
	watchWriting = watchReading | unix.EPOLLOUT
)

// A set is what one of netpoll's pollers waits for. netpoll has no call to watch a
// socket without reading from it, but for a listener's: so the set, an epoll instance,
// is given to it as a listener, and what is ready is found when it accepts.
type set struct {
	number int // of the epoll instance
	bell   int // an eventfd, which wakes the poller

	loop     netpoll.EventLoop
	answered chan struct{} // closed when the poller has heard the bell
	released chan struct{} // closed when the poller has let go of the set
	served   chan error

	// mu protects what follows.
	mu       sync.Mutex
	conns    []*conn // by descriptor
	stopping bool

	// events belongs to the poller.
	events [eventsAtOnce]unix.EpollEvent
}

func newSet() (*set, error) {
	s := &set{number: -1, bell: -1, answered: make(chan struct{}), released: make(chan struct{}), served: make(chan error, 1)}
	if err := s.open(); err != nil {
		s.closeDescriptors()
		return nil, err
	}
	go func() { s.served <- guarded(func() error { return s.loop.Serve(arrivals{s}) }) }()
	s.ring()
	select {
	case <-s.answered:
		return s, nil
	case err := <-s.served:
		s.closeDescriptors()
		return nil, err
	}
}

func (s *set) open() (err error) {
	if s.number, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if s.bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	if err = s.control(unix.EPOLL_CTL_ADD, s.bell, unix.EPOLLIN|unix.EPOLLET); err != nil {
		return err
	}
	s.loop, err = netpoll.NewEventLoop(nil)
	return err
}

// close closes the connections that are left. The poller itself must let go of the
// set: it may be about to use it.
func (s *set) close() error {
	s.mu.Lock()
	s.stopping = true
	left := s.conns
	s.conns = nil
	s.mu.Unlock()
	for _, c := range left {
		if c != nil {
			c.Close()
		}
	}
	s.ring()
	<-s.released
	err := <-s.served
	s.closeDescriptors()
	return err
}

func (s *set) closeDescriptors() {
	for _, descriptor := range []int{s.bell, s.number} {
		if descriptor >= 0 {
			// It fails only for what is not open.
			_ = unix.Close(descriptor)
		}
	}
}

// ring wakes the poller.
func (s *set) ring() {
	// Adding one to a counter that is taken each time does not fail.
	_, _ = unix.Write(s.bell, []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

func (s *set) control(operation, descriptor int, events uint32) error {
	event := unix.EpollEvent{Events: events, Fd: int32(descriptor)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(s.number, operation, descriptor, &event))
}

// add begins to watch a connection.
func (s *set) add(c *conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return net.ErrClosed
	}
	descriptor := c.socket.number
	for len(s.conns) <= descriptor {
		s.conns = append(s.conns, nil)
	}
	if err := s.control(unix.EPOLL_CTL_ADD, descriptor, watchReading); err != nil {
		return err
	}
	s.conns[descriptor] = c
	return nil
}

// remove ends that. Precondition: the descriptor is still open.
func (s *set) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	descriptor := c.socket.number
	if descriptor >= len(s.conns) || s.conns[descriptor] != c {
		return // the set is closed
	}
	s.conns[descriptor] = nil
	// It fails only for what is not watched.
	_ = s.control(unix.EPOLL_CTL_DEL, descriptor, 0)
}

func (s *set) find(descriptor int) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if descriptor >= len(s.conns) {
		return nil
	}
	return s.conns[descriptor]
}

// dispatch tells connections what has happened. One that was closed meanwhile may
// have a successor with the same number, which then looks in vain.
func (s *set) dispatch() {
	n, err := unix.EpollWait(s.number, s.events[:], 0)
	if err != nil {
		return // EINTR: netpoll calls again
	}
	rung := false
	for _, event := range s.events[:n] {
		if int(event.Fd) == s.bell {
			rung = true
		} else if c := s.find(int(event.Fd)); c != nil {
			c.happened(event.Events)
		}
	}
	if rung {
		s.hear()
	}
}

// hear handles the bell: that the poller works, and that it is to stop.
func (s *set) hear() {
	var count [8]byte
	_, _ = unix.Read(s.bell, count[:])
	s.mu.Lock()
	stopping := s.stopping
	s.mu.Unlock()
	if !stopping {
		close(s.answered)
		return
	}
	// It fails only where it must wait for connections of its own.
	_ = s.loop.Shutdown(context.Background())
	close(s.released)
}

// arrivals is the set as netpoll sees it: a listener that accepts nothing.
type arrivals struct{ *set }

// Accept tells the connections that are ready. Without a connection and without an
// error it means that there is nobody to accept.
func (a arrivals) Accept() (net.Conn, error) {
	a.dispatch()
	return nil, nil
}

// Close leaves the descriptors to the set.
func (a arrivals) Close() error { return nil }

// Addr implements net.Listener.
func (a arrivals) Addr() net.Addr { return nil }

// Fd returns what the poller waits for.
func (a arrivals) Fd() int { return a.number }
