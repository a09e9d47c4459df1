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
