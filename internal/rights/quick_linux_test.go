package rights_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

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

// tracedOnly in the environment makes a test the program whose system calls are counted.
const tracedOnly = "NEARCALL_TEST_TRACED"

// tracedFrom is above all numbers that the program opens by itself.
const tracedFrom = 1000

// What a peer sends by the thousand costs few system calls each. Those are counted that name the
// descriptor: to look what it is, once, and to close it.
func TestFewSystemCallsForEach(t *testing.T) {
	const messages, each, callsMax = 20, 16, 4
	if os.Getenv(tracedOnly) != "" {
		for range messages {
			closeQuickOnes(t, each)
		}
		return
	}
	trace := filepath.Join(t.TempDir(), "trace")
	command := exec.Command("strace", "-f", "-qq", "-o", trace, "-e", "trace=desc,network", "-e", "signal=none",
		os.Args[0], "-test.run=^"+t.Name()+"$")
	command.Env = append(os.Environ(), tracedOnly+"=1")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	text, err := os.ReadFile(trace)
	must(t, err)
	calls := regexp.MustCompile(`(?m)^\d+ +\w+\(1\d{3}[,)]`).FindAllString(string(text), -1)
	if len(calls) < 2*messages*each || len(calls) > callsMax*messages*each {
		t.Errorf("%d system calls for %d descriptors, want %d for each at most: %.300q", len(calls), messages*each, callsMax, calls)
	}
}

func closeQuickOnes(t *testing.T, count int) {
	t.Helper()
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	var numbers []int
	for range count {
		number, err := unix.FcntlInt(null.Fd(), unix.F_DUPFD_CLOEXEC, tracedFrom)
		must(t, err)
		numbers = append(numbers, number)
	}
	if rights.Crowded(numbers...) {
		t.Fatal("a call is refused, and nothing waits to be closed")
	}
	rights.Close(numbers...)
	for end := time.Now().Add(patience); openFrom(t, tracedFrom) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("descriptors are open after %v", patience)
		}
	}
}

// openFrom counts the open descriptors from that number on.
func openFrom(t *testing.T, from int) (count int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for _, entry := range entries {
		if number, err := strconv.Atoi(entry.Name()); err == nil && number >= from {
			count++
		}
	}
	return count
}
