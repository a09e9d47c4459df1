package transport

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sendQuickly sends what the socket takes at once, whether or not others have made the
// socket wait. The scheduler is not told: telling it wakes the runtime's monitor in a
// process that was idle, and the monitor then looks after the process every 20 us until
// that is idle again, which takes as long as a call.
func sendQuickly(socket int, b []byte) (n int, failure syscall.Errno) {
	tellRaceDetector()
	sent, _, failure := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(socket), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if failure != 0 {
		return 0, failure
	}
	return int(sent), 0
}

// peekQuickly looks whether a byte has arrived, in the same way, and leaves it where it is.
// It returns 0 without a failure at the end of the stream.
func peekQuickly(socket int) (arrived int, failure syscall.Errno) {
	var b [1]byte
	n, _, failure := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(socket), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	if failure != 0 {
		return 0, failure
	}
	return int(n), 0
}
