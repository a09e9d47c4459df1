package transport

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// DescriptorBytes is what one takes in a control message.
const DescriptorBytes = 4

// FilesOf returns the descriptors that a control message brought.
func FilesOf(control []byte) (files []*os.File) {
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

// NothingSent reports whether a sendmsg that failed took nothing from a connection
// that goes on: it fails with a number only when it has taken nothing, such as
// ETOOMANYREFS for a user with more descriptors on the way than RLIMIT_NOFILE.
func NothingSent(err error) bool {
	var number unix.Errno
	if !errors.As(err, &number) {
		return false
	}
	return number != unix.EPIPE && number != unix.ECONNRESET && number != unix.ENOTCONN
}
