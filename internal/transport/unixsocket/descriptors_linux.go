package unixsocket

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
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
	return err
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
