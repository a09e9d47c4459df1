// Package rightstest is for tests about descriptors that others send: what happens on kernels
// before Linux 6.16, which do not know SO_PASSRIGHTS, whatever kernel the tests run on; and
// descriptors that nobody should have to close.
package rightstest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// here is set in the environment of processes that have the filter.
const here = "NEARCALL_TEST_OLD_KERNEL"

// timeout is of a test in a process of its own.
const timeout = "120s"

// StartOnOldKernel starts a command, as its own method does, where a filter says that there is
// no such option.
func StartOnOldKernel(command *exec.Cmd) error {
	started := make(chan error, 1)
	go func() {
		// The filter is the thread's, and that of processes it starts. It stays for
		// them: they may be told to end with their thread.
		runtime.LockOSThread()
		err := install()
		if err == nil {
			err = command.Start()
		}
		started <- err
		select {}
	}()
	return <-started
}

// OnOldKernel reports whether the test runs on an old kernel. Where it does not, it is run on
// one, in a process of its own, and has failed if that does.
func OnOldKernel(t *testing.T) bool {
	t.Helper()
	if os.Getenv(here) != "" {
		return true
	}
	var output bytes.Buffer
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout="+timeout)
	command.Env = append(os.Environ(), here+"=1")
	command.Stdout, command.Stderr = &output, &output
	err := StartOnOldKernel(command)
	if err == nil {
		err = command.Wait()
	}
	if err != nil {
		t.Fatalf("on a kernel without SO_PASSRIGHTS: %v\n%s", err, output.String())
	}
	return false
}

// Where a filter finds the number of the system call, and its third argument.
const (
	offsetOfNumber = 0
	offsetOfOption = 16 + 2*8
)

// install makes the calls that get and set the option fail, for this thread.
func install() error {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	unless := func(value uint32, equal, other uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jt: equal, Jf: other}
	}
	result := func(value uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
	}
	filter := []unix.SockFilter{
		load(offsetOfNumber),
		unless(unix.SYS_GETSOCKOPT, 1, 0),
		unless(unix.SYS_SETSOCKOPT, 0, 3),
		load(offsetOfOption),
		unless(unix.SO_PASSRIGHTS, 0, 1),
		result(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOPROTOOPT)),
		result(unix.SECCOMP_RET_ALLOW),
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl(PR_SET_NO_NEW_PRIVS): %w", err)
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: unsafe.SliceData(filter)}
	_, _, failure := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if failure != 0 {
		return os.NewSyscallError("seccomp", failure)
	}
	return nil
}
