package transport

import (
	"net"
	"syscall"
)

// RawOf returns the descriptor of a socket of the kernel, or nil if conn has none.
func RawOf(conn net.Conn) syscall.RawConn {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}
