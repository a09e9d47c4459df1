package front

import (
	"encoding/binary"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The scheduler is not told about these calls, because they do not wait; that is what
// internal/rights has for the rest of the way of a connection. A front has little to do for
// each connection, and the runtime's monitor would be woken for every one.

// acceptNow is accept4 for a listening socket that does not block. Another process that has
// the same socket may have made it block; then the scheduler is told.
func acceptNow(listening uintptr, flags int) (fd int, address syscall.Sockaddr, err error) {
	status, _, failure := syscall.RawSyscall(syscall.SYS_FCNTL, listening, syscall.F_GETFL, 0)
	if failure != 0 || status&syscall.O_NONBLOCK == 0 {
		// Not that of package unix, which asks for the protocol each time.
		return syscall.Accept4(int(listening), flags)
	}
	var raw syscall.RawSockaddrAny
	length := uint32(unsafe.Sizeof(raw))
	got, _, failure := syscall.RawSyscall6(syscall.SYS_ACCEPT4, listening, uintptr(unsafe.Pointer(&raw)), uintptr(unsafe.Pointer(&length)), uintptr(flags), 0, 0)
	if failure != 0 {
		return -1, nil, failure
	}
	return int(got), clientAddress(int(got), &raw), nil
}

func clientAddress(fd int, raw *syscall.RawSockaddrAny) syscall.Sockaddr {
	switch raw.Addr.Family {
	case syscall.AF_INET:
		in := (*syscall.RawSockaddrInet4)(unsafe.Pointer(raw))
		return &syscall.SockaddrInet4{Addr: in.Addr, Port: hostOrder(in.Port)}
	case syscall.AF_INET6:
		in := (*syscall.RawSockaddrInet6)(unsafe.Pointer(raw))
		return &syscall.SockaddrInet6{Addr: in.Addr, Port: hostOrder(in.Port), ZoneId: in.Scope_id}
	}
	// Few have another one, such as a path.
	address, err := syscall.Getpeername(fd)
	if err != nil {
		return nil
	}
	return address
}

func hostOrder(port uint16) int {
	var bytes [2]byte
	binary.NativeEndian.PutUint16(bytes[:], port)
	return int(binary.BigEndian.Uint16(bytes[:]))
}

// peekNow returns how many bytes have arrived, as far as there is room, and consumes none.
func peekNow(fd int, into []byte) int {
	n, _, failure := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(into))), uintptr(len(into)),
		unix.MSG_DONTWAIT|unix.MSG_PEEK, 0, 0)
	if failure != 0 {
		return 0
	}
	return int(n)
}
