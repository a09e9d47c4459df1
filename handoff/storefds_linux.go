package handoff

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// sendDescriptor does what WriteMsgUnix would do if it worked on connected datagram
// sockets.
func (n *notifier) sendDescriptor(text string, fd uintptr) error {
	raw, err := n.socket.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = raw.Write(func(socket uintptr) bool {
		failure = unix.Sendmsg(int(socket), []byte(text), unix.UnixRights(int(fd)), nil, unix.MSG_NOSIGNAL)
		return failure != unix.EAGAIN && failure != unix.EINTR
	})
	return errors.Join(err, os.NewSyscallError("sendmsg", failure))
}
