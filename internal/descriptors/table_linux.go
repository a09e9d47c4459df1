package descriptors

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/rights"
)

// duplicateOf returns a descriptor of the same open file. File() and Fd() would
// set the original to blocking mode.
func duplicateOf(from rights.Open) (duplicate int, err error) {
	raw, err := from.SyscallConn()
	if err != nil {
		return 0, err
	}
	failure := raw.Control(func(fd uintptr) {
		duplicate, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
	})
	if failure != nil {
		return 0, failure
	}
	return duplicate, os.NewSyscallError("fcntl", err)
}

// isConnectedStream reports whether the descriptor is that of a connected TCP socket. It waits
// for whoever has the socket's lock, which the scheduler is told by this call, and not by
// getpeername of package unix, nor by those that net.FileConn makes later.
func isConnectedStream(descriptor int) bool {
	kind, err := unix.GetsockoptInt(descriptor, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	if err != nil || kind != unix.IPPROTO_TCP && kind != unix.IPPROTO_MPTCP {
		return false
	}
	info, err := unix.GetsockoptTCPInfo(descriptor, unix.SOL_TCP, unix.TCP_INFO)
	return err == nil && !slices.Contains([]uint8{unix.BPF_TCP_CLOSE, unix.BPF_TCP_LISTEN, unix.BPF_TCP_SYN_SENT}, info.State)
}
