package eventloop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

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

// A poller is rung so often, and waited for so long each time. It does what its
// connections make of their events, which never waits. A process that was stopped for a
// while, as by a signal or with its control group, finds the time of one ring over before
// the poller had any, and not that of the next.
const (
	ringsMax    = 5
	ringTimeout = time.Second
)

var errNoAnswer = fmt.Errorf("netpoll's poller has not answered for %v: either the machine had no time for this process, then try again; "+
	"or netpoll was configured after the first server with an event loop had started: do that before, best in a function init, and not again", ringsMax*ringTimeout)

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
	added    int32   // how many; it may wrap
	stopping bool

	// What follows belongs to the poller, which may hear the bell more than once.
	events    [eventsAtOnce]unix.EpollEvent
	answering sync.Once
	releasing sync.Once
}

func newSet() (*set, error) {
	s := &set{number: -1, bell: -1, answered: make(chan struct{}), released: make(chan struct{}), served: make(chan error, 1)}
	if err := s.open(); err != nil {
		s.closeDescriptors()
		return nil, err
	}
	go func() { s.served <- guarded(func() error { return s.loop.Serve(arrivals{s}) }) }()
	err := s.call(s.answered, s.served)
	if err == nil {
		return s, nil
	}
	if !errors.Is(err, errNoAnswer) {
		s.closeDescriptors()
	}
	return nil, err
}

// call rings until the poller has done something, or until something has ended without
// it.
func (s *set) call(done <-chan struct{}, ended <-chan error) error {
	for range ringsMax {
		s.ring()
		select {
		case <-done:
			return nil
		case err := <-ended:
			return err
		case <-time.After(ringTimeout):
		}
	}
	return errNoAnswer
}

func (s *set) open() (err error) {
	if s.number, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if s.bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	if err = s.control(unix.EPOLL_CTL_ADD, s.bell, unix.EPOLLIN|unix.EPOLLET, 0); err != nil {
		return err
	}
	s.loop, err = netpoll.NewEventLoop(nil)
	return err
}

// close closes the connections that are left. The poller itself must let go of the
// set: it may be about to use it. Of a poller that does not, the set's descriptors
// stay.
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
	if err := s.call(s.released, nil); err != nil {
		return err
	}
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

// control changes what is watched. generation comes back with every event.
func (s *set) control(operation, descriptor int, events uint32, generation int32) error {
	event := unix.EpollEvent{Events: events, Fd: int32(descriptor), Pad: generation}
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
	s.added++
	c.generation = s.added
	if err := s.control(unix.EPOLL_CTL_ADD, descriptor, watchReading, c.generation); err != nil {
		return err
	}
	s.conns[descriptor] = c
	return nil
}

// remove ends that. Precondition: the descriptor is still open.
func (s *set) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hasLocked(c) {
		return // the set is closed
	}
	s.conns[c.socket.number] = nil
	// It fails only for what is not watched.
	_ = s.control(unix.EPOLL_CTL_DEL, c.socket.number, 0, 0)
}

// watch changes what a connection is watched for. It fails with net.ErrClosed for one
// that is not watched any more.
func (s *set) watch(c *conn, events uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hasLocked(c) {
		return net.ErrClosed
	}
	return s.control(unix.EPOLL_CTL_MOD, c.socket.number, events, c.generation)
}

// hasLocked tells whether the connection is watched. Its descriptor and the set's are
// open as long as it is and mu is held.
func (s *set) hasLocked(c *conn) bool {
	return c.socket.number < len(s.conns) && s.conns[c.socket.number] == c
}

// find returns whom an event is for. One that was closed meanwhile may have a successor
// with the same number.
func (s *set) find(event *unix.EpollEvent) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int(event.Fd) >= len(s.conns) {
		return nil
	}
	found := s.conns[event.Fd]
	if found == nil || found.generation != event.Pad {
		return nil
	}
	return found
}

// dispatch tells connections what has happened.
func (s *set) dispatch() {
	n, err := unix.EpollWait(s.number, s.events[:], 0)
	if err != nil {
		return // EINTR: netpoll calls again
	}
	rung := false
	for i := range s.events[:n] {
		event := &s.events[i]
		if int(event.Fd) == s.bell {
			rung = true
		} else if c := s.find(event); c != nil {
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
	if stopping {
		s.releasing.Do(s.release)
		return
	}
	s.answering.Do(func() { close(s.answered) })
}

// release lets the poller go.
func (s *set) release() {
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
