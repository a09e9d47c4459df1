package tcp

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// boundUnanswered makes the connection end if the peer's host does not answer for so long: the
// kernel would try for a quarter of an hour. A failure costs nothing else.
func boundUnanswered(conn *net.TCPConn, limit time.Duration) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	})
}
