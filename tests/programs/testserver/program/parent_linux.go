package program

import (
	"runtime"
	"syscall"
)

// endWithParent lets the kernel end this process when the thread that started it ends: a
// test that was killed cannot do it any more. The goroutine keeps its thread, because the
// kernel remembers this for the thread.
func endWithParent() {
	runtime.LockOSThread()
	if _, _, number := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0); number != 0 {
		fail(number)
	}
}
