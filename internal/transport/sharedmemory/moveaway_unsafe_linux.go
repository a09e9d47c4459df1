package sharedmemory

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// yield lets the peer run if it waits for this very CPU, where it was placed when it
// was woken through the socket. It is not called while a ring is hot, because frames
// come before that.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// currentCPU returns the CPU on which the calling thread runs, counted from 1, or 0 if
// that is not known.
func currentCPU() uint64 {
	var cpu uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		return 0
	}
	return uint64(cpu) + 1
}

// moveAway moves the calling thread to another CPU, if it may use one, and then
// restores the set of CPUs that the thread may use. The kernel places a thread that is
// woken through a socket on the CPU of its waker, because it expects the waker to sleep
// soon. A waker that spins instead keeps the other from running. Once the two are on
// different CPUs they stay there while both are busy.
//
// The set that is restored is that of the moment: the CPUs that the thread could use
// then. A cpuset that shrinks, now or later, still bounds the thread. But if another
// process changes the set meanwhile (taskset), that is undone. CPUs that the cpuset
// gains later, or that come online, are not added: from Linux 6.2 on the thread keeps
// its set until it is given another one, and before that until its cpuset changes.
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
		// This fails only if a cpuset has meanwhile taken all these CPUs away; the
		// kernel has then put the thread on those that there are.
		_ = unix.SchedSetaffinity(0, &allowed)
	}
}
