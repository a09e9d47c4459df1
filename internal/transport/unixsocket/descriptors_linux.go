package unixsocket

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/transport"
)

// SendDescriptors writes all of b with the descriptors attached to its first
// byte. It waits as Write does.
func (c *conn) SendDescriptors(b []byte, files ...*os.File) error {
	descriptors := make([]int, len(files))
	for i, file := range files {
		descriptors[i] = int(file.Fd())
	}
	n, _, err := c.WriteMsgUnix(b, unix.UnixRights(descriptors...), nil)
	if err == nil && n < len(b) {
		return io.ErrShortWrite
	}
	if refused(err) {
		return fmt.Errorf("%w: %w", transport.ErrNotSent, err)
	}
	return err
}

// refused reports whether a sendmsg that failed took nothing from a connection
// that goes on: it fails with a number only when it has taken nothing, such as
// ETOOMANYREFS for a user with more descriptors on the way than RLIMIT_NOFILE.
func refused(err error) bool {
	var number unix.Errno
	if !errors.As(err, &number) {
		return false
	}
	return number != unix.EPIPE && number != unix.ECONNRESET && number != unix.ENOTCONN
}

// filesOf returns the descriptors that a control message brought.
func filesOf(control []byte) (files []*os.File, err error) {
	if len(control) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, os.NewSyscallError("recvmsg", err)
	}
	for i := range messages {
		descriptors, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // no descriptors
		}
		for _, descriptor := range descriptors {
			files = append(files, os.NewFile(uintptr(descriptor), "received"))
		}
	}
	return files, nil
}
