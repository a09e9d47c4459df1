package transport

import (
	"errors"

	"golang.org/x/sys/unix"
)

// NothingSent reports whether a sendmsg that failed took nothing from a connection
// that goes on: it fails with a number only when it has taken nothing, such as
// ETOOMANYREFS for a user with more descriptors on the way than RLIMIT_NOFILE, or
// EPERM where the peer takes none (SO_PASSRIGHTS).
func NothingSent(err error) bool {
	var number unix.Errno
	if !errors.As(err, &number) {
		return false
	}
	return number != unix.EPIPE && number != unix.ECONNRESET && number != unix.ENOTCONN
}
