package unixsocket

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/transport"
)

const descriptorBytes = 4

// SendDescriptors writes all of b with the descriptors attached to its first
// byte. It waits as Write does.
func (c *conn) SendDescriptors(b []byte, descriptors ...int) error {
	n, _, err := c.WriteMsgUnix(b, unix.UnixRights(descriptors...), nil)
	if refused(err) {
		return fmt.Errorf("%w: %w", transport.ErrNotSent, err)
	}
	if err == nil && n < len(b) {
		_, err = c.Write(b[n:])
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
func filesOf(control []byte) (files []*os.File) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil // the kernel writes no such message
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
	return files
}
