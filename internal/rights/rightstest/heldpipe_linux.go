package rightstest

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	heldWithin = 10 * time.Second
	look       = time.Millisecond
)

// HeldPipe returns the descriptor of a pipe's end, which is the caller's. A process that closes its
// last reference waits until the test lets go or ends, because somebody else has the pipe's lock:
// a thread that moves what is in the pipe into a socket, and waits for room there. Looking at the
// pipe and not waiting finds an ordinary one.
func HeldPipe(t testing.TB) (end int, letGo func()) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var pipe [2]int
	must(unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	_, err := unix.Write(pipe[1], []byte("x"))
	must(err)
	// A file of its own, of the same pipe.
	end, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", pipe[1]), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	must(err)
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	fill(ends[0])
	thread, over := make(chan int), make(chan struct{})
	go func() {
		defer close(over)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread <- unix.Gettid()
		_, _ = unix.Splice(pipe[0], nil, ends[0], nil, 1, 0)
		for _, number := range []int{pipe[0], pipe[1], ends[0]} {
			unix.Close(number)
		}
	}()
	awaitSplice(t, <-thread)
	letGo = func() {
		_ = unix.Shutdown(ends[1], unix.SHUT_RDWR)
		<-over
		unix.Close(ends[1])
	}
	return end, letGo
}

// fill leaves no room in a socket, not for one byte.
func fill(socket int) {
	for _, bytes := range []int{unsentBytes, 1} {
		for err := error(nil); err == nil; {
			_, err = unix.SendmsgN(socket, make([]byte, bytes), nil, nil, unix.MSG_DONTWAIT)
		}
	}
}

// awaitSplice waits until a thread of this process does in that call.
func awaitSplice(t testing.TB, thread int) {
	t.Helper()
	call := fmt.Sprintf("%d ", unix.SYS_SPLICE)
	for end := time.Now().Add(heldWithin); ; time.Sleep(look) {
		state, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", thread))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(state), call) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("who is to hold a pipe does not wait after %v: %s", heldWithin, state)
		}
	}
}
