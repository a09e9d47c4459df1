package rights

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The scheduler is not told about the calls of this file, because none of them waits. In
// a process that was idle, to tell it wakes the runtime's monitor, which then looks after
// the process every 20 us until it is idle again. Where work comes in small pieces, that
// takes as long as the work.

// ReceivePlain is Receive for bytes with which no descriptors came. If some came, or may
// have come, it takes nothing and plain is false; Receive is to be called then.
func ReceivePlain(socket int, b []byte) (n int, plain bool, failure unix.Errno) {
	// If it only looks, the kernel has no descriptor to close.
	n, truncated, failure := receiveQuickly(socket, b, unix.MSG_PEEK)
	if failure != 0 || n == 0 {
		return 0, true, failure
	}
	if truncated {
		return 0, false, 0
	}
	// Nobody else reads, so these are the same bytes.
	n, _, failure = receiveQuickly(socket, b[:n], 0)
	return n, true, failure
}

// receiveQuickly has no room for descriptors, and reports whether some came.
func receiveQuickly(socket int, b []byte, flags int) (n int, truncated bool, failure unix.Errno) {
	vector := unix.Iovec{Base: unsafe.SliceData(b)}
	vector.SetLen(len(b))
	header := unix.Msghdr{Iov: &vector, Iovlen: 1}
	for {
		got, _, failure := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(socket), uintptr(unsafe.Pointer(&header)), uintptr(flags|unix.MSG_DONTWAIT))
		switch failure {
		case unix.EINTR:
		case 0:
			return int(got), header.Flags&unix.MSG_CTRUNC != 0, 0
		default:
			return 0, false, failure
		}
	}
}

// Send sends bytes, and the control message unless it is empty, as far as the socket takes
// them at once. It raises no SIGPIPE.
func Send(socket int, b, control []byte) (n int, failure unix.Errno) {
	vector := unix.Iovec{Base: unsafe.SliceData(b)}
	vector.SetLen(len(b))
	header := unix.Msghdr{Iov: &vector, Iovlen: 1}
	if len(control) > 0 {
		header.Control = unsafe.SliceData(control)
		header.SetControllen(len(control))
	}
	sent, _, failure := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(socket), uintptr(unsafe.Pointer(&header)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	if failure != 0 {
		return 0, failure
	}
	return int(sent), 0
}

// CloseTCP closes a TCP connection of which another process may have a copy. If that
// process has made it linger, the scheduler is told.
func CloseTCP(socket int) error {
	if mayLinger(socket) {
		return os.NewSyscallError("close", unix.Close(socket))
	}
	_, _, failure := unix.RawSyscall(unix.SYS_CLOSE, uintptr(socket), 0, 0)
	if failure == 0 || errors.Is(failure, unix.EINTR) { // it is closed in either case
		return nil
	}
	return os.NewSyscallError("close", failure)
}

func mayLinger(socket int) bool {
	linger, failure := lingerOf(socket)
	return failure != 0 || waits(linger)
}

func lingers(socket int) bool {
	linger, failure := lingerOf(socket)
	return failure == 0 && waits(linger)
}

func waits(linger unix.Linger) bool { return linger.Onoff != 0 && linger.Linger != 0 }

func lingerOf(socket int) (linger unix.Linger, failure unix.Errno) {
	failure = getOption(socket, unix.SO_LINGER, unsafe.Pointer(&linger), unsafe.Sizeof(linger))
	return linger, failure
}

// socketOption returns an option that the kernel reads without the socket's lock.
func socketOption(socket, option int) (int, unix.Errno) {
	var value int32
	failure := getOption(socket, option, unsafe.Pointer(&value), unsafe.Sizeof(value))
	return int(value), failure
}

func getOption(socket, option int, value unsafe.Pointer, size uintptr) unix.Errno {
	length := uint32(size)
	_, _, failure := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(socket), unix.SOL_SOCKET, uintptr(option),
		uintptr(value), uintptr(unsafe.Pointer(&length)), 0)
	return failure
}

func hasSeals(number int) bool {
	_, _, failure := unix.RawSyscall(unix.SYS_FCNTL, uintptr(number), unix.F_GET_SEALS, 0)
	return failure == 0
}
