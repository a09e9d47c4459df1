package rights_test

import (
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/descriptors"
	"github.com/nearcall/nearcall/internal/rights"
	"github.com/nearcall/nearcall/internal/rights/rightstest"
)

// patience bounds what must not take long.
const patience = 2 * time.Second

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// trap returns a socket whose last closing waits.
func trap(t *testing.T) int {
	t.Helper()
	made, err := rightstest.NewTrapper(t).Make()
	must(t, err)
	return made
}

func pair(t *testing.T) (own, peer int) {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(ends[1]) })
	return ends[0], ends[1]
}

// send sends the last reference of a descriptor.
func send(t *testing.T, to int, text string, number int) {
	t.Helper()
	must(t, unix.Sendmsg(to, []byte(text), unix.UnixRights(number), nil, 0))
	must(t, unix.Close(number))
}

// The trap is one: what follows tests something.
func TestTrap(t *testing.T) {
	number := trap(t)
	closed := make(chan struct{})
	go func() {
		unix.Close(number)
		close(closed)
	}()
	select {
	case <-closed:
		t.Fatal("closing a socket that lingers did not wait")
	case <-time.After(patience / 4):
	}
}

func TestCloseDoesNotWait(t *testing.T) {
	number := trap(t)
	rightstest.Within(t, patience, "closing a socket that lingers", func() { rights.Close(number) })
	wantClosed(t, number)
}

// wantClosed waits until a number is nobody's.
func wantClosed(t *testing.T, number int) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if _, err := unix.FcntlInt(uintptr(number), unix.F_GETFD, 0); err == unix.EBADF {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("descriptor %d is still open after %v", number, patience)
		}
	}
}

// A linger time of zero says that the connection is to be reset.
func TestCloseResetsWhatIsToBeReset(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	dialled, err := net.Dial("tcp", listener.Addr().String())
	must(t, err)
	must(t, dialled.(*net.TCPConn).SetLinger(0))
	file, err := dialled.(*net.TCPConn).File()
	must(t, err)
	number, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	must(t, err)
	must(t, file.Close())
	must(t, dialled.Close())
	rights.Close(number)
	accepted, err := listener.Accept()
	must(t, err)
	defer accepted.Close()
	must(t, accepted.SetDeadline(time.Now().Add(patience)))
	if _, err := accepted.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
		t.Errorf("the peer sees %v, and no reset", err)
	}
}

// What the kernel would close with a socket is taken out of it before; what is unread stays so,
// as far as the peer can tell.
func TestDrain(t *testing.T) {
	if !rightstest.OnOldKernel(t) {
		return
	}
	for _, last := range []string{"x", "a request"} {
		own, peer := pair(t)
		for range 10 {
			send(t, peer, "some bytes", trap(t))
		}
		send(t, peer, last, trap(t))
		rightstest.Within(t, patience, "emptying a socket and closing it", func() {
			rights.Drain(own)
			unix.Close(own)
		})
		if err := unix.Sendmsg(peer, []byte("x"), nil, nil, unix.MSG_NOSIGNAL); err == nil {
			t.Error("the peer can send to a socket that was emptied")
		}
		_, err := unix.Read(peer, make([]byte, 1))
		if want := last != "x"; (err == unix.ECONNRESET) != want {
			t.Errorf("after %q the peer reads %v; a reset is to tell of bytes that nobody read", last, err)
		}
	}
}

// A peer that never stops sending by itself is stopped, on every kernel: else a socket would be
// emptied for as long as the peer likes.
func TestDrainEndsWhileThePeerSends(t *testing.T) {
	own, peer := pair(t)
	must(t, unix.Sendmsg(peer, []byte("x"), unix.UnixRights(peer), nil, 0))
	var enough atomic.Bool
	defer enough.Store(true)
	stopped := make(chan error, 1)
	go func() {
		var err error
		for (err == nil || err == unix.EAGAIN || err == unix.EINTR) && !enough.Load() {
			err = unix.Sendmsg(peer, make([]byte, 4<<10), nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		}
		stopped <- err
	}()
	rightstest.Within(t, patience, "emptying a socket whose peer goes on sending", func() { rights.Drain(own) })
	var err error
	rightstest.Within(t, patience, "the peer, which could go on sending to a socket that was emptied,", func() { err = <-stopped })
	if err != unix.EPIPE {
		t.Errorf("the peer was stopped by %v", err)
	}
	must(t, unix.Close(own))
}

// A kernel that can refuses descriptors at their sender, from the beginning.
func TestRefuse(t *testing.T) {
	own, peer := pair(t)
	if _, err := unix.GetsockoptInt(own, unix.SOL_SOCKET, unix.SO_PASSRIGHTS); err != nil {
		t.Logf("this kernel cannot: %v", err)
		if rights.Refuse(own) {
			t.Error("the socket is said to be clean")
		}
		return
	}
	if rights.Refuse(own) {
		t.Error("a socket that let descriptors pass is said to be clean")
	}
	if !rights.Refuse(own) {
		t.Error("a socket that lets no descriptors pass is said to have some")
	}
	if err := unix.Sendmsg(peer, []byte("x"), unix.UnixRights(0), nil, 0); err != unix.EPERM {
		t.Errorf("descriptors pass: %v", err)
	}
	rights.Allow(own)
	must(t, unix.Sendmsg(peer, []byte("x"), unix.UnixRights(0), nil, 0))
}

// What makes its closing wait and cannot be disarmed costs a few threads and no more: here
// local sockets with such others in their queues. What does not look like it is closed meanwhile.
func TestClosersAreFew(t *testing.T) {
	const sockets, threadsMax = 60, 8
	var numbers []int
	for range sockets {
		own, peer := pair(t)
		send(t, peer, "x", trap(t))
		numbers = append(numbers, own)
	}
	for _, number := range numbers { // that are others' afterwards
		rightstest.Within(t, patience, "closing a socket with another in its queue", func() { rights.Close(number) })
	}
	for end := time.Now().Add(patience / 4); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if closing := closed(numbers); closing > threadsMax {
			t.Fatalf("%d threads wait for %d sockets", closing, sockets)
		}
	}
	if closing := closed(numbers); closing != threadsMax {
		t.Errorf("%d threads wait for %d sockets, want %d", closing, sockets, threadsMax)
	}
	quick, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	number := int(quick.Fd())
	rightstest.Within(t, patience, "closing an ordinary file", func() { rights.CloseOpen(quick) })
	wantClosed(t, number)
}

// A pipe is an ordinary thing, and yet its closing waits where somebody has its lock.
func TestClosingAHeldPipeDoesNotWait(t *testing.T) {
	for name, closeIt := range map[string]func(number int){
		"a descriptor": func(number int) { rights.Close(number) },
		"a file":       func(number int) { rights.CloseOpen(os.NewFile(uintptr(number), "received")) },
		"what a call has": func(number int) {
			var table descriptors.Table
			table.Put([]int{number})
			table.Close()
		},
		"what a queue has": func(number int) {
			own, peer := pair(t)
			send(t, peer, "x", number)
			rights.Drain(own)
			must(t, unix.Close(own))
		},
	} {
		t.Run(name, func(t *testing.T) {
			held, letGo := rightstest.HeldPipe(t)
			defer letGo()
			rightstest.Within(t, patience, "closing "+name, func() { closeIt(held) })
		})
	}
}

// One message, and one queue, cost one thread.
func TestWhatComesTogetherIsClosedByOne(t *testing.T) {
	if !rightstest.OnOldKernel(t) {
		return
	}
	const messages, each = 20, 5
	own, peer := pair(t)
	for range messages {
		var numbers []int
		for range each {
			end, letGo := rightstest.HeldPipe(t)
			defer letGo()
			numbers = append(numbers, end)
		}
		must(t, unix.Sendmsg(peer, []byte("x"), unix.UnixRights(numbers...), nil, 0))
		for _, number := range numbers {
			must(t, unix.Close(number))
		}
	}
	before := threads(t)
	rightstest.Within(t, patience, "emptying a queue of held pipes", func() { rights.Drain(own) })
	must(t, unix.Close(own))
	for end := time.Now().Add(patience / 4); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if more := threads(t) - before; more > each {
			t.Fatalf("%d more threads for one connection", more)
		}
	}
}

// threads counts those of this process.
func threads(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/task")
	must(t, err)
	return len(entries)
}

// While very many wait to be closed calls end all the same. The server's next ones are not given
// more of that kind, and who sends more unasked keeps them. It takes a process of its own, in which the
// others are waited for.
func TestCallsEndWhileVeryManyWait(t *testing.T) {
	const stuck, waiting = 8, 512
	if !rightstest.OnOldKernel(t) {
		return
	}
	for range stuck {
		own, peer := pair(t)
		send(t, peer, "x", trap(t))
		rights.Close(own)
	}
	slow := func() int { // its closing does not wait, which nobody can know
		own, _ := pair(t)
		return own
	}
	own, peer := pair(t)
	send(t, peer, "x", slow())
	if rights.Crowded(slow()) || rights.MustStay(own, false) {
		t.Error("a call, or a connection, is refused early")
	}
	for range waiting {
		rights.Close(slow())
	}
	var table descriptors.Table
	table.Put([]int{slow(), slow()})
	rightstest.Within(t, patience, "the end of a call that was given files", table.Close)
	if !rights.Crowded(slow()) {
		t.Error("more calls would be given such files")
	}
	if open := rights.Waiting(); open < waiting {
		t.Errorf("%d descriptors are said to stay open", open)
	}
	if !rights.MustStay(own, false) {
		t.Error("a connection would be read on that brings more")
	}
	rightstest.Within(t, patience, "the end of a connection that brought more", func() { rights.Drain(own) })
	quick, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	defer quick.Close()
	if rights.Crowded(int(quick.Fd())) {
		t.Error("a call is refused an ordinary file")
	}
}

// What seldom makes anybody wait may do so as well: then it is bounded like the other.
func TestBothLanesAreBounded(t *testing.T) {
	const stuck, waiting = 8, 512
	if !rightstest.OnOldKernel(t) {
		return
	}
	memory := func() *os.File {
		number, err := unix.MemfdCreate("ordinary", unix.MFD_CLOEXEC)
		must(t, err)
		return os.NewFile(uintptr(number), "ordinary")
	}
	release := make(chan struct{})
	defer close(release)
	for range stuck {
		rights.CloseOpen(held{memory(), release})
	}
	own, peer := pair(t)
	must(t, unix.Sendmsg(peer, []byte("x"), unix.UnixRights(peer), nil, 0))
	for _, asked := range []bool{false, true} {
		if rights.MustStay(own, asked) {
			t.Errorf("asked %v: a connection is refused early", asked)
		}
		for range waiting {
			rights.CloseOpen(memory())
		}
		if !rights.MustStay(own, asked) {
			t.Errorf("asked %v: a connection would be read on that brings more", asked)
		}
	}
	if open := rights.Waiting(); open < 2*waiting {
		t.Errorf("%d descriptors are said to stay open, want %d", open, 2*waiting)
	}
	if !rights.Crowded(peer) {
		t.Error("a call that opens files would begin")
	}
	rightstest.Within(t, patience, "the end of a connection that brought more", func() { rights.Drain(own) })
}

// A held file is closed when its test says so.
type held struct {
	*os.File
	release <-chan struct{}
}

func (h held) Close() error {
	<-h.release
	return h.File.Close()
}

// BenchmarkMustStay is what each read of a socket costs more on kernels that cannot refuse.
func BenchmarkMustStay(b *testing.B) {
	b.RunParallel(func(next *testing.PB) {
		for next.Next() {
			if rights.MustStay(-1, false) {
				b.Error("nothing waits to be closed")
			}
		}
	})
}

// closed counts those whose closing has begun.
func closed(numbers []int) (count int) {
	for _, number := range numbers {
		if _, err := unix.FcntlInt(uintptr(number), unix.F_GETFD, 0); err == unix.EBADF {
			count++
		}
	}
	return count
}
