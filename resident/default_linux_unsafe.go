//go:build linux

package resident

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelSignals is the size of the kernel's set of signals, in bytes.
const kernelSignals = 8

// defaultAction sets a signal to the kernel's default action. Package os/signal cannot
// do that once Ignore and then Notify were called: it takes the ignoring for something
// that was there when the process started.
func defaultAction(s syscall.Signal) {
	var action [4]uint64 // a struct sigaction with SIG_DFL, no flags and no mask
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, kernelSignals, 0, 0)
}
