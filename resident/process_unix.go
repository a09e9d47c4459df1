//go:build unix

package resident

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// signalledCode is what shells add to the number of a signal to make an exit code.
const signalledCode = 128

// processUmask reads the umask of the process, which is only possible by setting it.
// What another goroutine makes in between has fewer permissions, not more.
func processUmask() int {
	mask := unix.Umask(0o077)
	unix.Umask(mask)
	return mask
}

// terminalSize reports whether a file is a terminal, and how large that is. It leaves
// the descriptor as it is, which Fd would not do.
func terminalSize(file *os.File) (rows, columns int, is bool) {
	if file == nil {
		return 0, 0, false
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return 0, 0, false
	}
	_ = raw.Control(func(fd uintptr) {
		size, err := unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ)
		if err == nil {
			rows, columns, is = int(size.Row), int(size.Col), true
		}
	})
	return rows, columns, is
}

func codeOf(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return signalledCode + int(status.Signal())
	}
	return state.ExitCode()
}
