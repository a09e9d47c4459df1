package client

import "syscall"

// writeNonblocking writes what the socket takes at once. blocked tells that it
// takes no more now.
func writeNonblocking(fd uintptr, b []byte) (n int, blocked bool, err error) {
	for {
		n, err = syscall.Write(int(fd), b)
		switch err {
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, true, nil
		default:
			return max(n, 0), false, err
		}
	}
}
