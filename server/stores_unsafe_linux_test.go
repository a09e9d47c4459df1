package server_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/rights/rightstest"
	"github.com/nearcall/nearcall/internal/wire"
)

// These are of linux/userfaultfd.h.
const (
	faultAPI          = 0xAA
	faultAPICall      = 0xC018AA3F
	faultRegisterCall = 0xC020AA00
	faultMissing      = 1
)

type faultAPIArgument struct{ api, features, ioctls uint64 }

type faultRegisterArgument struct{ start, length, mode, ioctls uint64 }

// holdWriteLock lets a thread of this process write to a file for as long as the test likes, because
// the page that it writes from is one that somebody else has to provide. Until letGo is called nobody else can write
// to the file, and no thread that tries can be ended.
func holdWriteLock(t *testing.T, file *os.File) (letGo func()) {
	t.Helper()
	must := func(what string, errno unix.Errno) {
		t.Helper()
		if errno != 0 {
			t.Fatalf("%s: %v", what, errno)
		}
	}
	faults, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK, 0, 0)
	must("userfaultfd", errno)
	api := faultAPIArgument{api: faultAPI}
	_, _, errno = unix.Syscall(unix.SYS_IOCTL, faults, faultAPICall, uintptr(unsafe.Pointer(&api)))
	must("UFFDIO_API", errno)
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	register := faultRegisterArgument{start: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(page)))), length: uint64(len(page)), mode: faultMissing}
	_, _, errno = unix.Syscall(unix.SYS_IOCTL, faults, faultRegisterCall, uintptr(unsafe.Pointer(&register)))
	must("UFFDIO_REGISTER", errno)
	thread, over := make(chan int), make(chan struct{})
	go func() {
		defer close(over)
		runtime.LockOSThread()
		thread <- unix.Gettid()
		_, _, _ = unix.Syscall6(unix.SYS_PWRITE64, file.Fd(), uintptr(unsafe.Pointer(unsafe.SliceData(page))), uintptr(len(page)), storeHead, 0, 0)
	}()
	number := <-thread
	waitFor(t, "a write that waits for its page", func() bool {
		where, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", number))
		state, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/wchan", number))
		return strings.HasPrefix(string(where), fmt.Sprint(unix.SYS_PWRITE64)) && strings.Contains(string(state), "userfault")
	})
	return func() {
		unix.Close(int(faults))
		<-over
	}
}

// A caller that holds the lock of a store that it may write to holds up nobody: neither the call, nor
// the server when it gives the store up and when it stops.
func TestStoresWhoseLockIsHeld(t *testing.T) {
	s, path := storeServer(t)
	c := connectWithStores(t, path)
	said, file := c.ask(1 << 20)
	letGo := holdWriteLock(t, file)
	defer letGo()
	rightstest.Within(t, testTimeout, "the call", func() {
		c.request("echo", said)
		reply, _ := c.stored()
		if reply.Bytes != 1<<20 {
			t.Errorf("%d bytes", reply.Bytes)
		}
		c.release(reply)
	})
	other := mustAsk(c)
	c.request("length", other)
	if frame, _ := c.next(); frame.Type != wire.Reply {
		t.Errorf("%s", frame.Type)
	}
	c.conn.Close()
	rightstest.Within(t, testTimeout, "giving the stores up", func() { wantNothingStored(t, s) })
}
