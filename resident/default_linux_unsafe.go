//go:build linux

package resident

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelSignals is the size of a set of signals in bytes.
const kernelSignals = 8

// defaultAction gives a signal the kernel's default action. Package os/signal cannot:
// what it ignored for Ignore it takes for how the process was started, once Notify
// comes after that.
func defaultAction(s syscall.Signal) {
	var action [4]uint64 // a struct sigaction: SIG_DFL, no flags, no mask
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, kernelSignals, 0, 0)
}
