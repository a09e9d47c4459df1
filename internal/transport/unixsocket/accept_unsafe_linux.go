package unixsocket

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hasCaller reports whether accepting would not wait. It does not wait itself, so the
// scheduler is not told.
func hasCaller(listening uintptr) bool {
	watched, at := unix.PollFd{Fd: int32(listening), Events: unix.POLLIN}, unix.Timespec{}
	n, _, failure := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&watched)), 1, uintptr(unsafe.Pointer(&at)), 0, 0, 0)
	return n > 0 || failure != 0 // accepting will say what is wrong
}
