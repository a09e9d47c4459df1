package rights_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/rights"
)

// Bytes are taken as they came, and those with descriptors are left for Receive. Where a
// read would end behind such bytes, all of it is left.
func TestReceivePlain(t *testing.T) {
	own, peer := pair(t)
	defer unix.Close(own)
	buffer := make([]byte, 100)
	expect := func(text string, wantPlain bool) {
		t.Helper()
		n, plain, failure := rights.ReceivePlain(own, buffer)
		if failure != 0 || plain != wantPlain || string(buffer[:n]) != text {
			t.Fatalf("got %q, plain %t, %v; want %q, plain %t", buffer[:n], plain, failure, text, wantPlain)
		}
	}
	give := func(text string, control []byte) {
		t.Helper()
		if n, failure := rights.Send(peer, []byte(text), control); failure != 0 || n != len(text) {
			t.Fatalf("%d bytes were sent, %v", n, failure)
		}
	}
	if _, plain, failure := rights.ReceivePlain(own, buffer); !plain || failure != unix.EAGAIN {
		t.Fatalf("of nothing: plain %t, %v", plain, failure)
	}
	give("one", nil)
	give("two", nil)
	expect("onetwo", true)
	give("three", nil)
	give("four", unix.UnixRights(peer))
	give("five", nil)
	expect("", false)
	expect("", false)
	received, failure := rights.Receive(own, buffer)
	if failure != 0 || len(received.Numbers) != 1 || string(buffer[:received.Bytes]) != "threefour" {
		t.Fatalf("%q came with %v, %v", buffer[:received.Bytes], received.Numbers, failure)
	}
	must(t, unix.Close(received.Numbers[0]))
	expect("five", true)
	must(t, unix.Shutdown(peer, unix.SHUT_WR))
	expect("", true)
}

// A socket that is full takes no more, and one whose peer has gone does not kill the process.
func TestSendDoesNotWait(t *testing.T) {
	own, peer := pair(t)
	defer unix.Close(own)
	sent, failure := 0, unix.Errno(0)
	for failure == 0 {
		var n int
		n, failure = rights.Send(own, make([]byte, 1<<20), nil)
		sent += n
	}
	if failure != unix.EAGAIN || sent == 0 {
		t.Errorf("after %d bytes: %v", sent, failure)
	}
	must(t, unix.Shutdown(peer, unix.SHUT_RDWR))
	if _, failure := rights.Send(own, []byte("more"), nil); failure != unix.EPIPE {
		t.Errorf("to a peer that has gone: %v", failure)
	}
}

// What lingers holds up nobody but its closer. With one processor, whoever does not tell the
// scheduler holds up the process.
func TestCloseTCPThatLingers(t *testing.T) {
	number := trap(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var closed atomic.Bool
	go func() {
		_ = rights.CloseTCP(number)
		closed.Store(true)
	}()
	runtime.Gosched()
	if closed.Load() {
		t.Error("nothing else ran before it was closed")
	}
}

// What does not linger is closed, and a number that is none is reported.
func TestCloseTCP(t *testing.T) {
	number := trap(t)
	rights.Disarm(number)
	must(t, rights.CloseTCP(number))
	if err := rights.CloseTCP(number); err == nil {
		t.Error("it was closed twice")
	}
}
