package main

import (
	"syscall"
	"unsafe"
)

// blockedSignals returns the mask of the thread that calls.
func blockedSignals() (mask uint64, err error) {
	_, _, number := syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, 0, 0,
		uintptr(unsafe.Pointer(&mask)), unsafe.Sizeof(mask), 0, 0)
	if number != 0 {
		return 0, number
	}
	return mask, nil
}
