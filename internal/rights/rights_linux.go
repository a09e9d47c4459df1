// Package rights is about descriptors that other processes send over local sockets
// (SCM_RIGHTS), wanted or not. Whoever closes the last reference to a file may have to
// wait for it: for data that a TCP socket has not sent (SO_LINGER), for the process behind
// a FUSE file. A sender chooses the files and when it lets go of them, so nothing here,
// and nobody who uses this package, waits in the kernel for one of them.
//
// Linux 6.16 lets a socket refuse them (SO_PASSRIGHTS): the sender then fails with EPERM.
// On older kernels each read has room for all that a message can bring, since the kernel
// itself would close what there is no room for; what came is disarmed and closed by goroutines of Close;
// and a socket that is closed is emptied before.
package rights

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// MessageMax is what the kernel lets one message carry (SCM_MAX_FD).
const MessageMax = 253

// NumberBytes is what one descriptor takes in a control message.
const NumberBytes = 4

// Refuse makes a socket accept no descriptors any more; one that listens, none on behalf
// of those who connect. clean reports that it never did, and so that none are queued: the
// kernel knows the option, and it was off since the socket was connected.
func Refuse(socket int) (clean bool) {
	passes, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PASSRIGHTS)
	if err != nil {
		return false
	}
	if passes != 0 {
		// Whether or not it works the socket may have some.
		_ = set(socket, 0)
	}
	return passes == 0
}

// Allow makes a socket accept descriptors. Kernels that cannot refuse them do anyway.
func Allow(socket int) { _ = set(socket, 1) }

func set(socket, passes int) error {
	return unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PASSRIGHTS, passes)
}

// Expect makes sure that a socket on which descriptors may come gets no urgent bytes: the
// kernel throws away those that are in the way of others, with the descriptors that came with them.
func Expect(socket int) error {
	return unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1)
}

// RefuseCredentials undoes what whoever made a listener may have set on it, and so on what it
// accepts; a service manager does so by PassCredentials= and PassPIDFD=. What came with every read
// would take the room of descriptors, or be one that nobody closes.
func RefuseCredentials(socket int) error {
	err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PASSCRED, 0)
	processErr := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PASSPIDFD, 0)
	if processErr == unix.ENOPROTOOPT { // Linux 6.5 was the first to have it
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
		// It fails for what are no descriptors.
		found, _ := unix.ParseUnixRights(&messages[i])
		numbers = append(numbers, found...)
	}
	return numbers
}
