// Package rights handles descriptors that other processes send over local sockets
// (SCM_RIGHTS), whether or not they are wanted. Whoever closes the last reference to a
// file may have to wait: for data that a TCP socket has not sent (SO_LINGER), or for
// the process behind a FUSE file. The sender chooses the files, and when it lets go of
// them. So neither this package nor its users wait in the kernel for one of them.
//
// From Linux 6.16 on a socket can refuse descriptors (SO_PASSRIGHTS); their sender then
// fails with EPERM. On older kernels each read has room for all that a message can
// bring, because the kernel itself would close those for which there is no room. What
// came is disarmed and closed by goroutines of Close, and a socket is emptied before it
// is closed.
package rights

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// MessageMax is how many descriptors the kernel lets one message carry (SCM_MAX_FD).
const MessageMax = 253

// NumberBytes is the size of one descriptor in a control message.
const NumberBytes = 4

// Refuse makes a socket accept no more descriptors; a listening socket accepts none for
// those who connect. clean means that the socket never accepted any, so that none are
// queued: the kernel knows the option, and it was off since the socket was connected.
func Refuse(socket int) (clean bool) {
	passes, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PASSRIGHTS)
	if err != nil {
		return false
	}
	if passes != 0 {
		// Whether or not this works, the socket may already have some.
		_ = set(socket, 0)
	}
	return passes == 0
}

// Allow makes a socket accept descriptors. Kernels that cannot refuse them always do.
func Allow(socket int) { _ = set(socket, 1) }

func set(socket, passes int) error {
	return unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PASSRIGHTS, passes)
}

// Expect makes sure that a socket on which descriptors may come gets no urgent bytes.
// The kernel throws away urgent bytes that are in the way of others, with the
// descriptors that came with them.
func Expect(socket int) error {
	return unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1)
}

// RefuseCredentials removes options that the maker of a listener may have set on it,
// and so on what it accepts; a service manager does so by PassCredentials= and
// PassPIDFD=. What comes with every read because of them would take up the room for
// descriptors, or be a descriptor that nobody closes.
func RefuseCredentials(socket int) error {
	err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PASSCRED, 0)
	processErr := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PASSPIDFD, 0)
	if processErr == unix.ENOPROTOOPT { // the option exists since Linux 6.5
		processErr = nil
	}
	return os.NewSyscallError("setsockopt", errors.Join(err, processErr))
}

// Numbers returns the descriptors that a control message brought.
func Numbers(control []byte) (numbers []int) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil // the kernel writes no such message
	}
	for i := range messages {
		// This fails for messages that bring no descriptors.
		found, _ := unix.ParseUnixRights(&messages[i])
		numbers = append(numbers, found...)
	}
	return numbers
}
