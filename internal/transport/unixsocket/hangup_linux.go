package unixsocket

import "golang.org/x/sys/unix"

// HungUp reports whether the peer has closed the whole connection, and not only its own
// direction. It does not wait.
func (c *conn) HungUp() bool {
	gone := false
	err := c.Raw.Control(func(fd uintptr) {
		watched := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(watched, 0)
		gone = err == nil && n > 0 && watched[0].Revents&unix.POLLHUP != 0
	})
	return gone || err != nil
}
