//go:build unix

package handoff

import (
	"os"

	"golang.org/x/sys/unix"
)

// peekSocket copies what the socket's next read would return. again means that nothing
// has arrived yet. No bytes without again mean the end of the input.
func peekSocket(fd uintptr, buffer []byte) (n int, again bool, err error) {
	for {
		n, _, err := unix.Recvfrom(int(fd), buffer, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch err {
		case nil:
			return n, false, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, true, nil
		default:
			return 0, false, os.NewSyscallError("recvfrom", err)
		}
	}
}
