package eventloop

import (
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/transport"
)

// takeOver makes a connection of the socket of one of package net, and closes that:
// the runtime's poller, which would wake up for it too, then knows it no more.
func (s *set) takeOver(from net.Conn) (transport.ParkingConn, error) {
	raw, err := from.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil, err
	}
	descriptor := -1
	var failure error
	err = raw.Control(func(fd uintptr) {
		descriptor, failure = duplicate(int(fd))
	})
	if err = errors.Join(err, failure); err != nil {
		return nil, err
	}
	made, err := newConn(s, descriptor, from)
	if err != nil {
		return nil, errors.Join(err, os.NewSyscallError("close", unix.Close(descriptor)))
	}
	// The socket lives on under its other number.
	_ = from.Close()
	return made, nil
}

func duplicate(descriptor int) (int, error) {
	made, err := unix.FcntlInt(uintptr(descriptor), unix.F_DUPFD_CLOEXEC, 0)
	return made, os.NewSyscallError("fcntl(F_DUPFD_CLOEXEC)", err)
}
