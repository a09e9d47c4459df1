package handoff

import "golang.org/x/sys/unix"

// inputEnded reports whether the peer will send no more.
func inputEnded(fd uintptr) bool {
	watched := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(watched, 0)
	return err == nil && n > 0
}
