package handoff_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/handoff"
	"github.com/nearcall/nearcall/handoff/internal/frame"
	"github.com/nearcall/nearcall/internal/rights/rightstest"
	"github.com/nearcall/nearcall/internal/wire"
)

// An attacker speaks to a Listener by hand.
type attacker struct {
	t      *testing.T
	socket *net.UnixConn
}

func attack(t *testing.T, address string) *attacker {
	t.Helper()
	a := connectTo(t, address)
	a.send(encodedHello())
	_, err := io.ReadFull(a.socket, make([]byte, frame.HelloBytes))
	must(t, err)
	return a
}

// connectTo says nothing yet.
func connectTo(t *testing.T, address string) *attacker {
	t.Helper()
	socket, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: strings.TrimPrefix(address, "unix:")})
	must(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	must(t, socket.SetDeadline(time.Now().Add(testTimeout)))
	return &attacker{t, socket}
}

func encodedHello() []byte {
	hello := frame.Hello{Lowest: frame.Version, Highest: frame.Version, Window: 8}
	return hello.Append(nil)
}

func (a *attacker) send(bytes []byte, descriptors ...int) {
	a.t.Helper()
	var rights []byte
	if len(descriptors) > 0 {
		rights = unix.UnixRights(descriptors...)
	}
	_, _, err := a.socket.WriteMsgUnix(bytes, rights, nil)
	must(a.t, err)
}

// awaitRead waits until the Listener has read all that was sent.
func (a *attacker) awaitRead() {
	a.t.Helper()
	raw, err := a.socket.SyscallConn()
	must(a.t, err)
	for unread := 1; unread > 0; {
		must(a.t, raw.Control(func(fd uintptr) { unread, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }))
		must(a.t, err)
		time.Sleep(time.Millisecond)
	}
}

// expectEnd expects that the Listener closes the channel and says nothing more.
func (a *attacker) expectEnd() {
	a.t.Helper()
	if rest, err := io.ReadAll(a.socket); err != nil && !errors.Is(err, unix.ECONNRESET) || len(rest) > 0 {
		a.t.Errorf("the channel did not end: % x, %v", rest, err)
	}
}

func (a *attacker) expect(want frame.Type, reason frame.Reason) {
	a.t.Helper()
	header := make([]byte, frame.HeaderBytes)
	_, err := io.ReadFull(a.socket, header)
	must(a.t, err)
	got, err := frame.ParseHeader(header, frame.Limits{MessageBytesMax: 1 << 16})
	must(a.t, err)
	_, err = io.CopyN(io.Discard, a.socket, int64(got.Length))
	must(a.t, err)
	if got.Type != want || got.Reason != reason {
		a.t.Errorf("answered by type %d, reason %v; want %d, %v", got.Type, got.Reason, want, reason)
	}
}

// heapBytes returns what the program holds.
func heapBytes() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// A peer that has not said its hello holds a buffer for it and little else.
func TestChannelsCostLittleBeforeTheirHello(t *testing.T) {
	const channels, bytesMax = 100, 40 << 10
	_, address := listen(t, handoff.WithLogger(slog.New(slog.DiscardHandler)))
	before := heapBytes()
	for range channels {
		a := connectTo(t, address)
		a.send(encodedHello()[:1])
		a.awaitRead()
	}
	if each := (int64(heapBytes()) - int64(before)) / channels; each > bytesMax {
		t.Errorf("a channel without a hello takes %d bytes", each)
	}
}

// gift returns the end of a socket pair that is to be given, and a function that
// tells whether all copies of it are closed but the test's own.
func gift(t *testing.T) (fd int, expectClosed func()) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, unix.SetsockoptTimeval(pair[1], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(testTimeout / time.Second)}))
	other := os.NewFile(uintptr(pair[1]), "other end")
	t.Cleanup(func() { _ = other.Close() })
	return pair[0], func() {
		t.Helper()
		must(t, unix.Close(pair[0]))
		if n, err := other.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("what was given lives on: %d, %v", n, err)
		}
	}
}

func encoded(id uint64, change func(*frame.Frame)) []byte {
	f := frame.Frame{Type: frame.Give, Kind: frame.Connection, ID: id, Name: "hostile"}
	if change != nil {
		change(&f)
	}
	return f.Append(nil)
}

func TestBreachesEndTheChannelAndCloseWhatCame(t *testing.T) {
	ping := encoded(1, func(f *frame.Frame) { *f = frame.Frame{Type: frame.Ping, ID: 1} })
	for name, breach := range map[string]func(a *attacker, fd int){
		"two descriptors":          func(a *attacker, fd int) { a.send(encoded(1, nil), fd, fd) },
		"253 descriptors":          func(a *attacker, fd int) { a.send(encoded(1, nil), manyTimes(fd, 253)...) },
		"a descriptor with a ping": func(a *attacker, fd int) { a.send(ping, fd) },
		"a descriptor within a frame": func(a *attacker, fd int) {
			a.send(encoded(1, nil)[:34])
			a.awaitRead()
			a.send(encoded(1, nil)[34:], fd)
		},
		"an id twice":        func(a *attacker, fd int) { a.send(encoded(1, nil), fd); a.send(encoded(1, nil), fd) },
		"an unknown type":    func(a *attacker, fd int) { a.send(damaged(4, 99), fd) },
		"a length that lies": func(a *attacker, fd int) { a.send(damaged(0, 250), fd) },
		"a prefix of 4 GiB":  func(a *attacker, fd int) { a.send(damaged(19, 255), fd) },
		"an answer to nothing": func(a *attacker, fd int) {
			a.send(encoded(1, func(f *frame.Frame) { *f = frame.Frame{Type: frame.Taken, ID: 1} }))
		},
		"a recall of nothing": func(a *attacker, fd int) {
			a.send(encoded(1, func(f *frame.Frame) { *f = frame.Frame{Type: frame.Recall, ID: 1} }))
		},
		"a want that was not offered": func(a *attacker, fd int) {
			a.send(encoded(1, func(f *frame.Frame) { *f = frame.Frame{Type: frame.Want, ID: 1} }))
		},
		"more than the window":             func(a *attacker, fd int) { a.flood(fd, 5) },
		"descriptors that no gift takes":   func(a *attacker, fd int) { a.hoard(fd) },
		"noise":                            func(a *attacker, fd int) { a.send([]byte(strings.Repeat("noise ", 100)), fd) },
		"a frame that never ends":          func(a *attacker, fd int) { a.send(encoded(1, nil)[:20], fd) },
		"the end within a frame":           func(a *attacker, fd int) { a.send(encoded(1, nil)[:20], fd); must(a.t, a.socket.CloseWrite()) },
		"pings whose answers nobody reads": func(a *attacker, _ int) { a.floodPings() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, address := listen(t, handoff.WithWindow(4))
			a := attack(t, address)
			fd, expectClosed := gift(t)
			breach(a, fd)
			if name != "pings whose answers nobody reads" {
				a.expectEnd()
			}
			expectClosed()
		})
	}
}

// hoard sends pings each of which ends with the first byte of the next, and a
// descriptor that belongs to none.
func (a *attacker) hoard(fd int) {
	f := frame.Frame{Type: frame.Ping, ID: 1}
	ping := f.Append(nil)
	a.send(ping[:1], fd)
	for range 50 {
		torn := append(ping[1:len(ping):len(ping)], ping[0])
		if _, _, err := a.socket.WriteMsgUnix(torn, unix.UnixRights(fd), nil); err != nil {
			return // the breach has ended the channel
		}
	}
}

func manyTimes(fd, count int) []int {
	all := make([]int, count)
	for i := range all {
		all[i] = fd
	}
	return all
}

func damaged(at int, value byte) []byte {
	b := encoded(1, nil)
	b[at] = value
	return b
}

func (a *attacker) flood(fd, gifts int) {
	for id := range gifts {
		a.send(encoded(uint64(id+1), nil), fd)
	}
}

// floodPings writes until the Listener has had enough.
func (a *attacker) floodPings() {
	for id := uint64(1); ; id++ {
		f := frame.Frame{Type: frame.Ping, ID: id}
		if _, err := a.socket.Write(f.Append(nil)); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				a.t.Error("the Listener neither reads on nor ends the channel")
			}
			return
		}
	}
}

// A user has as many channels as it may; one more is told why, and no goroutine is
// spent on crowds that are. A channel that ends makes room.
func TestChannelsOfAUserAreBounded(t *testing.T) {
	const channels = 3
	_, address := listen(t, handoff.WithChannelsPerUser(channels))
	var last *handoff.Peer
	for range channels {
		last = dial(t, address)
	}
	_, err := handoff.Dial(testContext(t), address)
	if !errors.Is(err, handoff.ErrRefused) || !strings.Contains(err.Error(), "limit handoff_channels_per_user_max") {
		t.Errorf("one more: %v", err)
	}
	var silent []*attacker
	ended := make(chan error, channels+1)
	for range channels + 1 {
		a := connectTo(t, address)
		silent = append(silent, a)
		go func() {
			_, err := a.socket.Read(make([]byte, 1))
			ended <- err
		}()
	}
	select {
	case err := <-ended:
		if !errors.Is(err, io.EOF) {
			t.Errorf("the last of those that are refused: %v", err)
		}
	case <-time.After(time.Duration(wire.HelloTimeoutMs) * time.Millisecond / 2):
		t.Error("more are being refused than may be")
	}
	for _, a := range silent {
		must(t, a.socket.Close())
	}
	must(t, last.Close())
	for end := time.Now().Add(testTimeout); ; time.Sleep(time.Millisecond) {
		p, err := handoff.Dial(testContext(t), address)
		if err == nil {
			must(t, p.Close())
			return
		}
		if time.Now().After(end) {
			t.Fatalf("there is no room where a channel has ended: %v", err)
		}
	}
}

// ping asks often, and returns how many answers can be read when no more come.
func (a *attacker) ping(pings int) (answered int) {
	a.t.Helper()
	f := frame.Frame{Type: frame.Ping, ID: 1}
	a.send(bytes.Repeat(f.Append(nil), pings))
	raw, err := a.socket.SyscallConn()
	must(a.t, err)
	const quiet = 2 * time.Second
	for since := time.Now(); answered < pings && time.Since(since) < quiet; time.Sleep(time.Millisecond) {
		var unread int
		must(a.t, raw.Control(func(fd uintptr) { unread, err = unix.IoctlGetInt(int(fd), unix.SIOCINQ) }))
		must(a.t, err)
		if now := unread / frame.HeaderBytes; now > answered {
			answered, since = now, time.Now()
		}
	}
	return answered
}

// What the socket has the kernel add to each read is left open by nobody.
func TestListenerThatPassesCredentials(t *testing.T) {
	const pings = 10
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: t.TempDir() + "/s", Net: "unix"})
	must(t, err)
	rightstest.PassCredentials(t, socket)
	l := handoff.ListenOn(socket)
	defer l.Close()
	before := rightstest.ProcessDescriptors(t)
	a := attack(t, socket.Addr().String())
	for id := range uint64(pings) {
		ping := frame.Frame{Type: frame.Ping, ID: id + 1}
		a.send(ping.Append(nil))
		a.expect(frame.Pong, 0)
	}
	if now := rightstest.ProcessDescriptors(t); now != before {
		t.Errorf("%d descriptors of processes are open, %d before", now, before)
	}
}

// Givers that do not read hold up Close together, not one after the other.
func TestCloseWaitsForAllAtOnce(t *testing.T) {
	const givers, pings = 5, 400
	l, address := listen(t)
	fits := attack(t, address).ping(pings)
	if fits == pings {
		t.Fatalf("the kernel holds %d answers", fits)
	}
	for range givers {
		if full := attack(t, address).ping(fits); full != fits {
			t.Fatalf("%d answers, %d fit", full, fits)
		}
	}
	begin := time.Now()
	must(t, l.Close())
	took, one := time.Since(begin), time.Duration(wire.HandoffRecallMs)*time.Millisecond
	if took < one/2 || took > givers*one-one/2 {
		t.Errorf("it took %v, and each giver may take %v", took, one)
	}
}

func TestWhatIsRefusedLeavesTheChannel(t *testing.T) {
	l, address := listen(t)
	a := attack(t, address)
	fd, expectClosed := gift(t)

	a.send(encoded(1, nil)) // no descriptor
	a.expect(frame.Refused, frame.NoDescriptor)

	a.send(append(encoded(2, nil), encoded(3, nil)...), fd) // two gifts, one descriptor
	a.expect(frame.Refused, frame.NoDescriptor)             // the second's

	conns := accepted(l)
	a.expect(frame.Taken, 0)
	must(t, (<-conns).Close())

	// The kernel refuses this to its sender, who can go on.
	_, _, err := a.socket.WriteMsgUnix(encoded(4, nil), unix.UnixRights(manyTimes(fd, 254)...), nil)
	if !errors.Is(err, unix.EINVAL) {
		t.Errorf("254 descriptors: %v", err)
	}
	conns = accepted(l)
	a.send(encoded(4, nil), fd)
	a.expect(frame.Taken, 0)
	must(t, (<-conns).Close())
	expectClosed()
}

// Bytes of several sends are joined by the kernel, and one send is taken apart: the
// descriptor still finds its frame.
func TestGluedAndTornFrames(t *testing.T) {
	l, address := listen(t)
	a := attack(t, address)
	fd, expectClosed := gift(t)
	ping := frame.Frame{Type: frame.Ping, ID: 1}
	a.send(ping.Append(nil))
	a.send(encoded(1, nil), fd)
	a.send(ping.Append(nil))
	conns := accepted(l)
	first := <-conns
	must(t, first.Close())

	torn := encoded(2, nil)
	conns = accepted(l)
	a.send(torn[:1], fd)
	for _, b := range torn[1:] {
		a.send([]byte{b})
	}
	second := <-conns
	must(t, second.Close())
	expectClosed()
}

func TestWrongKinds(t *testing.T) {
	l, address := listen(t)
	a := attack(t, address)
	go func() { _, _ = l.Accept() }()
	go func() { _, _, _ = l.AcceptListener(testContext(t)) }()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = tcp.Close() }()
	listening, err := tcp.(*net.TCPListener).File()
	must(t, err)
	defer func() { _ = listening.Close() }()
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer func() { _ = null.Close() }()
	fd, expectClosed := gift(t)

	a.send(encoded(1, nil), int(listening.Fd()))
	a.expect(frame.Refused, frame.WrongKind)
	a.send(encoded(2, nil), int(null.Fd()))
	a.expect(frame.Refused, frame.WrongKind)
	a.send(encoded(3, func(f *frame.Frame) { f.Kind = frame.Listener }), fd)
	a.expect(frame.Refused, frame.WrongKind)
	datagrams, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer func() { _ = unix.Close(datagrams) }()
	before := descriptors(t)
	a.send(encoded(4, nil), datagrams)
	a.expect(frame.Refused, frame.WrongKind)
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
	expectClosed()
}

func TestNoHello(t *testing.T) {
	_, address := listen(t)
	for name, bytes := range map[string]string{
		"noise":             strings.Repeat("noise ", 100),
		"a hello of calls":  "\x89NCH\r\n\x1a\n" + strings.Repeat("\x00", 60),
		"a hello too long":  "\x8aNCP\r\n\x1a\n\xff\xff\xff\x7f" + strings.Repeat("\x00", 60),
		"a hello cut short": "\x8aNCP\r\n\x1a\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			socket, err := net.Dial("unix", strings.TrimPrefix(address, "unix:"))
			must(t, err)
			defer func() { _ = socket.Close() }()
			must(t, socket.SetDeadline(time.Now().Add(testTimeout)))
			_, err = io.WriteString(socket, bytes)
			must(t, err)
			if got, err := io.ReadAll(socket); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("answered % x, %v", got, err)
			}
		})
	}
}

func TestFutureVersionsAreToldWhy(t *testing.T) {
	_, address := listen(t)
	socket, err := net.Dial("unix", strings.TrimPrefix(address, "unix:"))
	must(t, err)
	defer func() { _ = socket.Close() }()
	hello := frame.Hello{Lowest: 7, Highest: 9}
	_, err = socket.Write(hello.Append(nil))
	must(t, err)
	answer, err := io.ReadAll(socket)
	must(t, err)
	if got := frame.ParseHello(answer); got.Highest != 0 || !strings.Contains(got.Refusal, "7 to 9") {
		t.Errorf("answered %+v", got)
	}
}

// Some of the descriptors arrived, as many as there was room for: the gift is refused
// and they are closed, for nobody knows which they are.
func TestControlMessageIsCutShort(t *testing.T) {
	address := socketIn(t)
	receiver := start(t, "crowded", "|| "+address)
	a := attack(t, address)
	_, err := io.WriteString(receiver.input, "fill\n")
	must(t, err)
	receiver.expect(t, "full")
	fd, expectClosed := gift(t)
	a.send(encoded(1, nil), fd, fd, fd)
	a.expect(frame.Refused, frame.NoDescriptor)
	expectClosed()
}

// One that does not read its answers does not keep others waiting for theirs.
func TestGiverThatDoesNotRead(t *testing.T) {
	l, address := listen(t)
	fd, expectClosed := gift(t)
	const channels = 8
	for range channels {
		a := attack(t, address)
		a.fillAnswers()
		a.send(encoded(1, nil), fd)
	}
	_, served := tcpPair(t)
	conns := accepted(l)
	began := time.Now()
	must(t, dial(t, address).SendConn(testContext(t), served, handoff.Meta{}))
	must(t, (<-conns).Close())
	if took := time.Since(began); took > channels*500*time.Millisecond {
		t.Errorf("an honest giver waited %v", took)
	}
	expectClosed()
}

// fillAnswers leaves no room for an answer, and no answer unwritten.
func (a *attacker) fillAnswers() {
	a.t.Helper()
	raw, err := a.socket.SyscallConn()
	must(a.t, err)
	queued, before := 0, -1
	for id := uint64(1); queued != before; id++ {
		f := frame.Frame{Type: frame.Ping, ID: id}
		a.send(f.Append(nil))
		before = queued
		for end := time.Now().Add(100 * time.Millisecond); queued == before && time.Now().Before(end); time.Sleep(time.Millisecond) {
			must(a.t, raw.Control(func(fd uintptr) { queued, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }))
		}
	}
}
