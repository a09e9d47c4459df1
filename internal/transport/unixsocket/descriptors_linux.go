package unixsocket

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/transport"
)

// SendDescriptors writes all of b with the descriptors attached to its first
// byte. It waits as Write does.
func (c *conn) SendDescriptors(b []byte, descriptors ...int) error {
	n, _, err := c.WriteMsgUnix(b, unix.UnixRights(descriptors...), nil)
	if transport.NothingSent(err) {
		return fmt.Errorf("%w: %w", transport.ErrNotSent, err)
	}
	if err == nil && n < len(b) {
		_, err = c.Write(b[n:])
	}
	return err
}
