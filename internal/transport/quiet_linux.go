package transport

import "syscall"

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
