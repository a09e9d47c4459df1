package peercred

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// groupsMax bounds the first guess; the kernel answers ERANGE with the number
// it needs, at most NGROUPS_MAX (65536).
const groupsMax = 64

// peerGroups has no wrapper in x/sys: the option's value is a bare array.
func peerGroups(fd int) ([]uint32, error) {
	groups := make([]uint32, groupsMax)
	for {
		bytes := uint32(len(groups) * 4)
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(unsafe.SliceData(groups))), uintptr(unsafe.Pointer(&bytes)), 0)
		switch {
		case errno == 0:
			return groups[:bytes/4], nil
		case errno == unix.ERANGE && int(bytes/4) > len(groups):
			groups = make([]uint32, bytes/4)
		default:
			return nil, os.NewSyscallError("getsockopt(SO_PEERGROUPS)", errno)
		}
	}
}
