package lease

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// A Queue is of connections for whichever worker of a pool waits: those that were
// forwarded and then brought a run. What nobody has taken is closed with it.
type Queue struct{ in, out int }

// NewQueue returns an empty one.
func NewQueue() (*Queue, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	return &Queue{in: ends[0], out: ends[1]}, nil
}

// Put adds a copy of a connection, and fails when there are very many.
func (q *Queue) Put(fd int) error {
	return os.NewSyscallError("sendmsg", unix.Sendmsg(q.in, []byte{byte(Give)}, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL))
}

// Empty tells that workers have taken all.
func (q *Queue) Empty() bool {
	poll := []unix.PollFd{{Fd: int32(q.out), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return n == 0 && err == nil
}

// Workers is the descriptor that workers inherit.
func (q *Queue) Workers() uintptr { return uintptr(q.out) }

// Close closes it.
func (q *Queue) Close() error { return errors.Join(unix.Close(q.in), unix.Close(q.out)) }
