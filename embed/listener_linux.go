package embed

import (
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A listener's sockets belong to this process alone. The program may fork at any time,
// and its children inherit every descriptor. With their copies open, callers would not
// notice that this process has ended.
type listener struct {
	net.Listener
	file *os.File        // a copy of the socket, because package net lets nobody else accept
	raw  syscall.RawConn // of file
}

var _ net.Listener = (*listener)(nil)

func keepListener(of net.Listener) (*listener, error) {
	socket, ok := of.(interface {
		syscall.Conn
		File() (*os.File, error)
		Lock() *os.File
		Waiting() *os.File
	})
	if !ok {
		return nil, errors.ErrUnsupported
	}
	file, err := socket.File()
	if err != nil {
		return nil, err
	}
	raw, err := keep(file)
	for _, other := range []syscall.Conn{socket, socket.Lock(), socket.Waiting()} {
		if err == nil {
			_, err = keep(other)
		}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &listener{of, file, raw}, nil
}

// Close closes both copies.
func (l *listener) Close() error { return errors.Join(l.file.Close(), l.Listener.Close()) }

// Accept accepts a connection and marks it as this process's own. No fork can come
// between the two.
func (l *listener) Accept() (conn net.Conn, err error) {
	failure := l.raw.Read(func(fd uintptr) bool {
		conn, err = acceptKept(int(fd))
		return !errors.Is(err, unix.EAGAIN)
	})
	return conn, errors.Join(failure, err)
}

func acceptKept(listening int) (net.Conn, error) {
	beginOpening()
	defer endOpening()
	fd, _, err := unix.Accept4(listening, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("accept4", err)
	}
	file := os.NewFile(uintptr(fd), "")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	_, err = keep(conn.(syscall.Conn))
	return conn, err
}

func keep(socket syscall.Conn) (syscall.RawConn, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	return raw, raw.Control(func(fd uintptr) { keepDescriptor(int(fd)) })
}
