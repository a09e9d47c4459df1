package gateway

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// socketPair returns the two ends of a local connection.
func socketPair() (near, far net.Conn, err error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	if near, err = connOf(ends[0]); err != nil {
		return nil, nil, errors.Join(err, unix.Close(ends[1]))
	}
	if far, err = connOf(ends[1]); err != nil {
		return nil, nil, errors.Join(err, near.Close())
	}
	return near, far, nil
}

// connOf makes a connection of a descriptor, which it takes over.
func connOf(descriptor int) (net.Conn, error) {
	file := os.NewFile(uintptr(descriptor), "socketpair")
	defer file.Close()
	return net.FileConn(file)
}
