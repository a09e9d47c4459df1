package main

import (
	"context"
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// deferSeconds is how long a connection may be silent before it is accepted all the same;
// the front has the same.
const deferSeconds = 10

// listen takes connections from the kernel when their first bytes are there, as the
// front and the proxies beside this server do.
func listen(hostPort string) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, deferSeconds)
		})
		return errors.Join(err, failed)
	}}
	return config.Listen(context.Background(), "tcp", hostPort)
}
