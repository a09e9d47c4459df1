package transport

import (
	"errors"

	"golang.org/x/sys/unix"
)

// NothingSent reports whether a sendmsg that failed has sent nothing, on a connection
// that goes on. Errors with a number mean that, such as ETOOMANYREFS if the user has
// more descriptors on the way than RLIMIT_NOFILE, or EPERM if the peer takes none
// (SO_PASSRIGHTS).
func NothingSent(err error) bool {
	var number unix.Errno
	if !errors.As(err, &number) {
		return false
	}
	return number != unix.EPIPE && number != unix.ECONNRESET && number != unix.ENOTCONN
}
