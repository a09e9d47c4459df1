package sharedmemory_test

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Where a filter finds the number of the system call, and its third argument.
const (
	offsetOfNumber = 0
	offsetOfAdvice = 16 + 2*8
)

// refuseToPopulate makes madvise refuse what kernels before Linux 5.14 do not know, for this thread.
func refuseToPopulate() error {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	skipUnless := func(value uint32, equal, other uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jt: equal, Jf: other}
	}
	result := func(value uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
	}
	filter := []unix.SockFilter{
		load(offsetOfNumber),
		skipUnless(unix.SYS_MADVISE, 0, 4),
		load(offsetOfAdvice),
		skipUnless(unix.MADV_POPULATE_READ, 1, 0),
		skipUnless(unix.MADV_POPULATE_WRITE, 0, 1),
		result(unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)),
		result(unix.SECCOMP_RET_ALLOW),
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: unsafe.SliceData(filter)}
	if _, _, failure := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); failure != 0 {
		return os.NewSyscallError("seccomp", failure)
	}
	// So that the test cannot pass without a filter.
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	if err := unix.Madvise(page, unix.MADV_POPULATE_READ); !errors.Is(err, unix.EINVAL) {
		return errors.New("the filter does nothing")
	}
	return unix.Munmap(page)
}

// Stores hold what is written on kernels that do not bring in pages beforehand.
func TestStoresOnOldKernels(t *testing.T) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		// The filter ends with the thread, which ends with this goroutine.
		runtime.LockOSThread()
		if err := refuseToPopulate(); err != nil {
			t.Error(err)
			return
		}
		for _, trusted := range []bool{false, true} {
			for _, peerWrites := range []bool{false, true} {
				checkStore(t, trusted, peerWrites)
			}
		}
	}()
	<-over
}
