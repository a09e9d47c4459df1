package eventloop

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// recvmsg reads without waiting, and without the sender's address, for which
// unix.Recvmsg allocates at every read.
func recvmsg(descriptor int, b, control []byte) (n, controlBytes, flags int, failure unix.Errno) {
	vector := unix.Iovec{Base: unsafe.SliceData(b)}
	vector.SetLen(len(b))
	header := unix.Msghdr{Iov: &vector, Iovlen: 1, Control: unsafe.SliceData(control)}
	header.SetControllen(len(control))
	read, _, failure := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(descriptor), uintptr(unsafe.Pointer(&header)), unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	return int(read), int(header.Controllen), int(header.Flags), failure
}
