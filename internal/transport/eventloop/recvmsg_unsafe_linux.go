package eventloop

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/rights"
)

// recvmsg reads without waiting where no descriptors can come, and without the sender's
// address, for which unix.Recvmsg allocates at every read.
func recvmsg(descriptor int, b []byte) (rights.Received, unix.Errno) {
	vector := unix.Iovec{Base: unsafe.SliceData(b)}
	vector.SetLen(len(b))
	header := unix.Msghdr{Iov: &vector, Iovlen: 1}
	for {
		n, _, failure := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(descriptor), uintptr(unsafe.Pointer(&header)), unix.MSG_DONTWAIT)
		switch failure {
		case unix.EINTR:
		case 0:
			return rights.Received{Bytes: int(n)}, 0
		default:
			return rights.Received{}, failure
		}
	}
}
