package client_test

import (
	"runtime"
	"syscall"
)

// lockThreadAs runs work on a thread of another user, which nobody uses
// afterwards.
func lockThreadAs(userID int, work func(), failed func(error)) {
	runtime.LockOSThread()
	// syscall.Setresuid would change all threads of the process.
	none := ^uintptr(0)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, none, uintptr(userID), none); errno != 0 {
		failed(errno)
		return
	}
	work()
}
