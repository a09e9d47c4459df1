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

// currentCPU is where the calling thread runs, counted from 1; 0: that is not known.
func currentCPU() uint64 {
	var cpu uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		return 0
	}
	return uint64(cpu) + 1
}

// moveAway moves the calling thread to another CPU, if it may use one, and then
// gives it back the set of CPUs that it had. The kernel places whoever is woken
// through a socket on the CPU of the waker, which it expects to sleep soon. One
// that spins instead keeps the other from running; once they are apart they stay
// so while both are busy.
//
// The set is of the moment: the CPUs that the thread could use then. A cpuset
// that shrinks meanwhile or later bounds the thread all the same. But what
// another process gives to the thread meanwhile (taskset) is undone, and CPUs
// that the cpuset gains, or that come online, are not the thread's: from Linux
// 6.2 on it keeps to its set until it is given another, before that until its
// cpuset changes next.
func moveAway() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpu := int(currentCPU()) - 1
	var allowed unix.CPUSet
	if cpu < 0 || unix.SchedGetaffinity(0, &allowed) != nil || allowed.Count() < 2 || !allowed.IsSet(cpu) {
		return
	}
	others := allowed
	others.Clear(cpu)
	if unix.SchedSetaffinity(0, &others) == nil {
		// It fails only if a cpuset has taken all of them away meanwhile; the kernel
		// has then put the thread on those that there are.
		_ = unix.SchedSetaffinity(0, &allowed)
	}
}
