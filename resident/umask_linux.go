package resident

import (
	"os"

	"golang.org/x/sys/unix"
)

// borrowUmask gives this thread a umask of its own for as long as the thread lives.
func borrowUmask(mask int) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	unix.Umask(mask)
	return nil
}
