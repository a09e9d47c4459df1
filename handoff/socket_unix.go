//go:build unix

package handoff

import (
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/handoff/internal/channel"
)

// withDescriptor lends the gift's descriptor to use, and keeps it from being closed
// meanwhile.
func withDescriptor(g *gift, _ Credentials, use func(descriptor int) error) error {
	raw, err := g.what.SyscallConn()
	if err != nil {
		return err
	}
	var useErr error
	err = raw.Control(func(fd uintptr) { useErr = use(int(fd)) })
	return errors.Join(err, useErr)
}

func closeArrival(a *arrival) { channel.Close([]int{a.descriptor}) }

// openConn makes a connection of an arrival and takes its descriptor over, even if it
// fails. Package net makes a copy of the descriptor and puts that on the poller.
func openConn(a *arrival) (net.Conn, error) {
	disarm(a.descriptor)
	file, err := newFile(a.descriptor, a.meta.Name)
	if err != nil {
		return nil, err
	}
	c, err := net.FileConn(file)
	if err != nil {
		closeFile(file)
		return nil, err
	}
	listening := c.RemoteAddr() == nil && listens(c)
	// The copy keeps the socket open, so this does not wait.
	_ = file.Close()
	// A socket without a peer is a listener, or its client has gone.
	if listening {
		return nil, errors.Join(errors.New("handoff: a listener was given as a connection"), c.Close())
	}
	return c, nil
}

func openListener(a *arrival) (net.Listener, error) {
	// This comes before newFile, which may change the number of the descriptor.
	if !isListening(a.descriptor) {
		closeArrival(a)
		return nil, errors.New("handoff: what was given as a listener does not listen")
	}
	file, err := newFile(a.descriptor, a.meta.Name)
	if err != nil {
		return nil, err
	}
	defer closeFile(file)
	return net.FileListener(file)
}

// openFile takes anything: pipes, devices and sockets are files too.
func openFile(a *arrival) (*os.File, error) {
	return newFile(a.descriptor, a.meta.Name)
}

func listens(c net.Conn) (listening bool) {
	if has, ok := c.(syscall.Conn); ok {
		if raw, err := has.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { listening = isListening(int(fd)) })
		}
	}
	return listening
}

func isListening(fd int) bool {
	listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	return err == nil && listening != 0
}

func isLackOfDescriptors(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}
