package transport

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A SocketQuiet implements Quiet for a socket of the kernel. One goroutine at a time uses it.
type SocketQuiet struct {
	Raw     syscall.RawConn
	arrived int
	failure syscall.Errno
	// call is made once, so that looking allocates nothing.
	call func(fd uintptr)
}

// Quiet implements QuietCarrier.
func (q *SocketQuiet) Quiet() (bool, error) {
	if q.call == nil {
		q.call = func(fd uintptr) { q.arrived, q.failure = peekQuickly(int(fd)) }
	}
	if err := q.Raw.Control(q.call); err != nil {
		return false, err
	}
	switch q.failure {
	case syscall.EAGAIN, syscall.EINTR:
		return q.failure == syscall.EAGAIN, nil
	case 0:
		return false, nil
	}
	return false, q.failure
}

// Acknowledged implements QuietCarrier.
func (q *SocketQuiet) Acknowledged() (bytes uint64, ago time.Duration, sending bool) {
	_ = q.Raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return
		}
		bytes, ago = info.Bytes_acked, time.Duration(info.Last_ack_recv)*time.Millisecond
		sending = info.Unacked > 0 || info.Notsent_bytes > 0
	})
	return bytes, ago, sending
}
