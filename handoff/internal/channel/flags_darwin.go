package channel

import (
	"errors"

	"golang.org/x/sys/unix"
)

// send sends without waiting, as far as the socket takes it. Go ignores SIGPIPE for
// sockets, and macOS has no flag for it.
func send(fd int, b, control []byte) (int, error) { return unix.SendmsgN(fd, b, control, nil, 0) }

// descriptorsMax is more than a message carries. There is room for all of them, so that
// none is received unseen.
const descriptorsMax = 253

const descriptorBytes = 4

// Close closes descriptors that nobody is to have; Lost ones need none.
func Close(descriptors []int) {
	for _, fd := range descriptors {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// Allow has nothing to do: macOS refuses none.
func (c *Channel) Allow() {}

// refuseCredentials has nothing to do: none come as descriptors.
func (c *Channel) refuseCredentials() error { return nil }

// receive reads without waiting. To make descriptors close-on-exec comes too late for a
// fork between the two calls; there is nothing better on macOS.
func receive(fd int, into []byte, _ bool) (n int, descriptors []int, truncated bool, err error) {
	control := make([]byte, unix.CmsgSpace(descriptorsMax*descriptorBytes))
	n, controlBytes, flags, _, err := unix.Recvmsg(fd, into, control, 0)
	for errors.Is(err, unix.EINTR) {
		n, controlBytes, flags, _, err = unix.Recvmsg(fd, into, control, 0)
	}
	if err != nil {
		return 0, nil, false, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:min(controlBytes, len(control))])
	for i := range messages {
		// It fails for what are no descriptors.
		rights, _ := unix.ParseUnixRights(&messages[i])
		descriptors = append(descriptors, rights...)
	}
	for _, descriptor := range descriptors {
		unix.CloseOnExec(descriptor)
	}
	return n, descriptors, flags&unix.MSG_CTRUNC != 0, err
}

// drain has nothing to do: there is no way to take what was sent and leave the bytes.
func drain(uintptr) {}
