package sharedmemory

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// yield lets the peer run if it waits for this very CPU, where it was placed when
// it was woken through the socket. Nobody else's turn is asked for on a hot ring:
// there the frame has come before.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// moveAway moves the calling thread to another CPU, if it may use one, and
// leaves it free to go anywhere afterwards. The kernel places whoever is woken
// through a socket on the CPU of the waker, which it expects to sleep soon. One
// that spins instead keeps the other from running; once they are apart they stay
// so while both are busy.
func moveAway() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var cpu uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		return
	}
	var allowed unix.CPUSet
	if unix.SchedGetaffinity(0, &allowed) != nil || allowed.Count() < 2 || !allowed.IsSet(int(cpu)) {
		return
	}
	others := allowed
	others.Clear(int(cpu))
	if unix.SchedSetaffinity(0, &others) == nil {
		// It can fail only if the CPUs were taken away meanwhile.
		_ = unix.SchedSetaffinity(0, &allowed)
	}
}
