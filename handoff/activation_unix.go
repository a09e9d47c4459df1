//go:build unix

package handoff

import (
	"os"

	"golang.org/x/sys/unix"
)

// prepareInherited marks a descriptor close-on-exec and reports whether it is a
// listening stream socket.
func prepareInherited(fd int) (listening bool, err error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil {
		return false, os.NewSyscallError("fcntl", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, flags|unix.FD_CLOEXEC); err != nil {
		return false, os.NewSyscallError("fcntl", err)
	}
	accepts, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	return err == nil && accepts != 0, nil
}
