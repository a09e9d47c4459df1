package channel

import "golang.org/x/sys/unix"

// Go ignores SIGPIPE for sockets, and macOS has no flag for either.
const (
	noSignal    = 0
	closeOnExec = 0
)

// setCloseOnExec comes too late for a fork between the two calls; there is nothing
// better on macOS.
func setCloseOnExec(descriptors []int) {
	for _, fd := range descriptors {
		unix.CloseOnExec(fd)
	}
}
