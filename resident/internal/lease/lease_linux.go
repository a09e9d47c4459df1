// Package lease is between a resident that supervises and its workers: a worker of a
// pool waits for connections itself, and tells the supervisor of each; a serial one is
// given them. When a lease ends, so does the worker, or so has it.
package lease

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/wire"
)

// A Message is what a worker says.
type Message byte

// The messages of a worker, and Give, which is the supervisor's. Those with a
// connection come with a copy of its descriptor.
const (
	Ready   Message = 'R' // it waits
	Taken   Message = 'T' // it runs this connection's request; a serial one was given it
	Forward Message = 'F' // this connection is not for it; it goes on waiting
	Free    Message = 'E' // it is done with a connection, in a pool with one that brought no run, and waits again
	Give    Message = 'G' // a serial worker is to serve this connection
)

// NoDescriptor is in place of one.
const NoDescriptor = -1

// A Lease is the supervisor's end.
type Lease struct{ socket *net.UnixConn }

// Pair returns both ends of a lease; the second is to be a worker's.
func Pair() (*Lease, *os.File, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	own, theirs := os.NewFile(uintptr(ends[0]), "lease"), os.NewFile(uintptr(ends[1]), "lease")
	made, err := net.FileConn(own)
	_ = own.Close()
	if err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	socket, ok := made.(*net.UnixConn)
	if !ok {
		_, _ = made.Close(), theirs.Close()
		return nil, nil, fmt.Errorf("a socket pair is %T", made)
	}
	return &Lease{socket}, theirs, nil
}

// End tells the worker to leave, unless a run is its own.
func (l *Lease) End() error { return l.socket.CloseWrite() }

// Close closes the lease.
func (l *Lease) Close() error { return l.socket.Close() }

// Give gives a copy of a connection to a serial worker that waits. It fails with
// ETOOMANYREFS as Tell does.
func (l *Lease) Give(fd int) error {
	return patiently(func() error {
		_, _, err := l.socket.WriteMsgUnix([]byte{byte(Give)}, unix.UnixRights(fd), nil)
		return err
	})
}

// Receive returns the worker's next message, and io.EOF when it has none any more.
// The descriptor is the caller's.
func (l *Lease) Receive() (Message, int, error) {
	var b [1]byte
	control := make([]byte, unix.CmsgSpace(4))
	n, controlBytes, _, _, err := l.socket.ReadMsgUnix(b[:], control)
	if err != nil {
		return 0, NoDescriptor, err
	}
	fd := descriptorOf(control[:controlBytes])
	if n == 0 {
		return 0, fd, io.EOF
	}
	return Message(b[0]), fd, nil
}

func descriptorOf(control []byte) int {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil || len(messages) != 1 {
		return NoDescriptor
	}
	found, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(found) != 1 {
		return NoDescriptor
	}
	return found[0]
}

// A Worker is the other end, with the socket on which launchers connect.
type Worker struct {
	lease, listener, queue int
	events                 int // of all: an epoll descriptor
}

// Open makes a worker of inherited descriptors, which it owns.
func Open(lease, listener, queue int) (*Worker, error) {
	events, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	w := &Worker{lease: lease, listener: listener, queue: queue, events: events}
	// Of those that wait one is woken by a connection, not all.
	err = errors.Join(w.watch(listener, unix.EPOLLIN|unix.EPOLLEXCLUSIVE), w.watch(queue, unix.EPOLLIN|unix.EPOLLEXCLUSIVE), w.watch(lease, unix.EPOLLIN|unix.EPOLLRDHUP),
		unix.SetNonblock(listener, true))
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (w *Worker) watch(fd int, events uint32) error {
	event := unix.EpollEvent{Events: events, Fd: int32(fd)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(w.events, unix.EPOLL_CTL_ADD, fd, &event))
}

// Next waits for a connection, which is the caller's; NoDescriptor: there is none
// any more. When the lease has ended it does not wait.
func (w *Worker) Next() (int, error) {
	for {
		var events [3]unix.EpollEvent
		n, err := unix.EpollWait(w.events, events[:], -1)
		if err != nil && err != unix.EINTR {
			return NoDescriptor, os.NewSyscallError("epoll_wait", err)
		}
		ended := false
		for _, event := range events[:max(n, 0)] {
			ended = ended || int(event.Fd) == w.lease
		}
		fd, err := w.accept()
		if fd == NoDescriptor && err == nil {
			fd, err = receive(w.queue, unix.MSG_DONTWAIT)
		}
		if fd != NoDescriptor || err != nil || ended {
			return fd, err
		}
	}
}

// NextGiven waits for a connection that the supervisor gives, as Next does.
func (w *Worker) NextGiven() (int, error) {
	return receive(w.lease, 0)
}

// receive returns a connection that the supervisor gives, or NoDescriptor.
func receive(from, flags int) (int, error) {
	var b [1]byte
	control := make([]byte, unix.CmsgSpace(4))
	for {
		n, controlBytes, _, _, err := unix.Recvmsg(from, b[:], control, unix.MSG_CMSG_CLOEXEC|flags)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return NoDescriptor, nil
		case err != nil:
			return NoDescriptor, os.NewSyscallError("recvmsg", err)
		case n == 0:
			return NoDescriptor, nil
		default:
			return descriptorOf(control[:controlBytes]), nil
		}
	}
}

func (w *Worker) accept() (int, error) {
	for {
		fd, _, err := unix.Accept4(w.listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		switch err {
		case nil:
			return fd, nil
		case unix.EINTR, unix.ECONNABORTED:
		case unix.EAGAIN:
			return NoDescriptor, nil
		default:
			return NoDescriptor, os.NewSyscallError("accept4", err)
		}
	}
}

// Tell sends a message, with a copy of a descriptor or NoDescriptor. It fails with
// ETOOMANYREFS when too many descriptors of this user stay on the way.
func (w *Worker) Tell(m Message, fd int) error {
	var control []byte
	if fd != NoDescriptor {
		control = unix.UnixRights(fd)
	}
	return patiently(func() error {
		return os.NewSyscallError("sendmsg", unix.Sendmsg(w.lease, []byte{byte(m)}, control, nil, unix.MSG_NOSIGNAL))
	})
}

// crowdPause is between two attempts: nobody tells when descriptors have arrived.
const crowdPause = 5 * time.Millisecond

// patiently sends again what is interrupted, and for a while what the kernel refuses
// because too many descriptors of this user are on the way.
func patiently(send func() error) error {
	until := time.Now().Add(wire.ResidentSendMs * time.Millisecond)
	for {
		err := send()
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ETOOMANYREFS) && time.Now().Before(until):
			time.Sleep(crowdPause)
		default:
			return err
		}
	}
}

// Leave lets go of the launchers' socket: one run is all that this process takes.
func (w *Worker) Leave() {
	_, _, _ = unix.Close(w.events), unix.Close(w.listener), unix.Close(w.queue)
}
