package client

import "syscall"

// writeNonblocking writes as much as the socket takes at once. blocked means that it
// takes no more for now.
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

// sendNonblocking is writeNonblocking with descriptors attached to the first byte.
// refused means that nothing was written, because the user already has as many
// descriptors on the way as the kernel allows.
func sendNonblocking(fd uintptr, b []byte, descriptors []int) (n int, blocked, refused bool, err error) {
	if len(descriptors) == 0 {
		n, blocked, err = writeNonblocking(fd, b)
		return n, blocked, false, err
	}
	rights := syscall.UnixRights(descriptors...)
	for {
		n, err = syscall.SendmsgN(int(fd), b, rights, nil, syscall.MSG_NOSIGNAL|syscall.MSG_DONTWAIT)
		switch err {
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, true, false, nil
		case syscall.ETOOMANYREFS:
			return 0, false, true, nil
		default:
			return max(n, 0), false, false, err
		}
	}
}
