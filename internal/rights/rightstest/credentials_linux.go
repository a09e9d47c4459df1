package rightstest

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// PassCredentials has the kernel tell with every read of a listener's connections who sent, as a
// service manager does with PassCredentials= and PassPIDFD=.
func PassCredentials(t *testing.T, listener syscall.Conn) {
	t.Helper()
	raw, err := listener.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	controlled := raw.Control(func(fd uintptr) {
		if err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err == nil {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSPIDFD, 1)
		}
	})
	if controlled != nil || err != nil && err != unix.ENOPROTOOPT { // before Linux 6.5 there is no other
		t.Fatal(controlled, err)
	}
}

// ProcessDescriptors counts what this process has of the descriptors that stand for processes.
func ProcessDescriptors(t *testing.T) (count int) {
	t.Helper()
	const directory = "/proc/self/fd/"
	list, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range list {
		// It fails for the one that the list was read from.
		if target, err := os.Readlink(directory + entry.Name()); err == nil && strings.Contains(target, "pidfd") {
			count++
		}
	}
	return count
}
