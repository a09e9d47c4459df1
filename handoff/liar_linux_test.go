package handoff_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/handoff"
	"github.com/nearcall/nearcall/handoff/internal/frame"
	"github.com/nearcall/nearcall/internal/wire"
)

// A liar speaks to a Peer by hand. It has read one gift.
type liar struct {
	t      *testing.T
	socket *net.UnixConn
}

// lie listens for one channel and runs answer when the first gift has arrived. The
// channel stays until the test ends.
func lie(t *testing.T, answer func(l *liar)) (address string) {
	t.Helper()
	path := t.TempDir() + "/liar.sock"
	listening, err := net.Listen("unix", path)
	must(t, err)
	t.Cleanup(func() { _ = listening.Close() })
	go func() {
		socket, err := listening.Accept()
		if err != nil {
			return
		}
		t.Cleanup(func() { _ = socket.Close() })
		l := &liar{t, socket.(*net.UnixConn)}
		if err := l.openAndReadGift(); err != nil {
			t.Error(err)
			return
		}
		answer(l)
	}()
	return "unix:" + path
}

func (l *liar) openAndReadGift() error {
	hello := frame.Hello{Lowest: 1, Highest: 1, Takes: frame.TakesConnections, Window: 8}
	if _, err := io.ReadFull(l.socket, make([]byte, frame.HelloBytes)); err != nil {
		return err
	}
	if _, err := l.socket.Write(hello.Append(nil)); err != nil {
		return err
	}
	_, err := io.ReadFull(l.socket, make([]byte, frame.HeaderBytes)) // drops the descriptor
	return err
}

func (l *liar) send(frames ...frame.Frame) {
	var all []byte
	for _, f := range frames {
		all = f.Append(all)
	}
	_, _ = l.socket.Write(all)
}

// Whatever a receiver does that does not take: the connection is its giver's, in time.
func TestReceiversThatLie(t *testing.T) {
	taken := frame.Frame{Type: frame.Taken, ID: 1}
	for name, row := range map[string]struct {
		answer func(l *liar)
		want   error
	}{
		"takes what was never given":  {func(l *liar) { l.send(frame.Frame{Type: frame.Taken, ID: 2}) }, net.ErrClosed},
		"answers as if it was pinged": {func(l *liar) { l.send(frame.Frame{Type: frame.Pong, ID: 1}) }, net.ErrClosed},
		"refuses":                     {func(l *liar) { l.send(frame.Frame{Type: frame.Refused, ID: 1, Reason: frame.Busy}) }, handoff.ErrRefused},
		"refuses without a reason":    {func(l *liar) { l.send(frame.Frame{Type: frame.Refused, ID: 1}) }, net.ErrClosed},
		"refuses, then takes": {func(l *liar) {
			l.send(frame.Frame{Type: frame.Refused, ID: 1, Reason: frame.Busy}, taken)
		}, handoff.ErrRefused},
		"half an answer": {func(l *liar) { _, _ = l.socket.Write(taken.Append(nil)[:31]) }, context.DeadlineExceeded},
		"half an answer, then the end": {func(l *liar) {
			_, _ = l.socket.Write(taken.Append(nil)[:31])
			_ = l.socket.Close()
		}, net.ErrClosed},
		"says nothing":            {func(*liar) {}, context.DeadlineExceeded},
		"drains and says nothing": {func(l *liar) { l.send(frame.Frame{Type: frame.Drain}) }, context.DeadlineExceeded},
		"sends a descriptor": {func(l *liar) {
			_, _, _ = l.socket.WriteMsgUnix(taken.Append(nil), unix.UnixRights(0), nil)
		}, net.ErrClosed},
		"noise": {func(l *liar) { _, _ = l.socket.Write([]byte(strings.Repeat("noise ", 100))) }, net.ErrClosed},
		"gives to one that takes nothing": {func(l *liar) {
			_, _, _ = l.socket.WriteMsgUnix(encoded(1, nil), unix.UnixRights(0), nil)
			_, _ = io.CopyN(io.Discard, l.socket, frame.HeaderBytes) // it is told
			_ = l.socket.Close()
		}, net.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := dial(t, lie(t, row.answer))
			client, served := tcpPair(t)
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			err := p.SendConn(ctx, served, handoff.Meta{})
			var failure *handoff.Error
			if !errors.Is(err, row.want) || !errors.As(err, &failure) {
				t.Errorf("given: %v, want %v", err, row.want)
			}
			expectOwner(t, client, served)
			_ = p.Close()
		})
	}
}

// Who stops waiting for an answer leaves nothing behind, and the answer that comes
// then is no breach; one that nothing was asked for is.
func TestAnswersThatComeTooLate(t *testing.T) {
	const pings = 3
	asked, answers := make(chan struct{}), make(chan frame.Frame)
	p := dial(t, lie(t, func(l *liar) { // it has read the first
		for range pings - 1 {
			_, _ = io.CopyN(io.Discard, l.socket, frame.HeaderBytes)
		}
		close(asked)
		for f := range answers {
			l.send(f)
		}
	}))
	defer close(answers)
	ctx, cancel := context.WithCancel(testContext(t))
	var all sync.WaitGroup
	for range pings {
		all.Go(func() {
			if err := p.Ping(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("pinged: %v", err)
			}
		})
	}
	<-asked
	cancel()
	all.Wait()
	if left := p.Questions(); left != 0 {
		t.Errorf("%d questions are left", left)
	}
	for id := range uint64(pings) {
		answers <- frame.Frame{Type: frame.Pong, ID: id + 1}
	}
	all.Go(func() { must(t, p.Ping(testContext(t))) })
	for p.Questions() == 0 {
		time.Sleep(time.Millisecond)
	}
	answers <- frame.Frame{Type: frame.Pong, ID: pings + 1}
	all.Wait()
	answers <- frame.Frame{Type: frame.Pong, ID: pings + 1}
	<-p.Ended()
	if err := p.Err(); !errors.Is(err, handoff.ErrProtocol) {
		t.Errorf("the channel ended: %v", err)
	}
}

// A second answer to the same gift is a breach, but the first one stands.
func TestTakenTwice(t *testing.T) {
	taken := frame.Frame{Type: frame.Taken, ID: 1}
	p := dial(t, lie(t, func(l *liar) { l.send(taken, taken) }))
	_, served := tcpPair(t)
	must(t, p.SendConn(testContext(t), served, handoff.Meta{}))
	<-p.Ended()
	if err := p.Err(); !errors.Is(err, handoff.ErrProtocol) {
		t.Errorf("the channel ended: %v", err)
	}
}

func TestHellosThatAreNone(t *testing.T) {
	refusal := frame.Hello{Refusal: "ask somebody else"}
	ahead := frame.Hello{Lowest: 9, Highest: 9}
	for name, row := range map[string]struct {
		answer string
		want   error
	}{
		"a refusal":         {string(refusal.Append(nil)), handoff.ErrRefused},
		"another version":   {string(ahead.Append(nil)), handoff.ErrRefused},
		"noise":             {strings.Repeat("noise ", 20), handoff.ErrProtocol},
		"a welcome to HTTP": {"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", handoff.ErrProtocol},
		"silence":           {"", os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := t.TempDir() + "/liar.sock"
			listening, err := net.Listen("unix", path)
			must(t, err)
			defer func() { _ = listening.Close() }()
			go func() {
				socket, err := listening.Accept()
				if err != nil {
					return
				}
				t.Cleanup(func() { _ = socket.Close() })
				_, _ = io.WriteString(socket, row.answer)
			}()
			_, err = handoff.Dial(testContext(t), "unix:"+path)
			if !errors.Is(err, row.want) {
				t.Errorf("dialled: %v, want %v", err, row.want)
			}
			if name == "a refusal" && !strings.Contains(err.Error(), refusal.Refusal) {
				t.Errorf("%v does not say why", err)
			}
		})
	}
}

// Whether the answer or the deadline comes first, a deadline that passed is the
// context's error.
func TestDialByItsDeadline(t *testing.T) {
	const dials, timeout = 60, 5 * time.Millisecond
	listening, err := net.Listen("unix", t.TempDir()+"/late.sock")
	must(t, err)
	defer func() { _ = listening.Close() }()
	go func() {
		answer := frame.Hello{Lowest: frame.Version, Highest: frame.Version, Takes: frame.TakesConnections, Window: 8}
		for i := 0; ; i++ {
			socket, err := listening.Accept()
			if err != nil {
				return
			}
			defer func() { _ = socket.Close() }()
			switch i % 3 {
			case 0: // silence
			case 1:
				_, _ = socket.Write(answer.Append(nil)[:frame.HelloBytes/2])
			case 2:
				time.AfterFunc(timeout, func() { _, _ = socket.Write(answer.Append(nil)) })
			}
		}
	}()
	for range dials {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		p, err := handoff.Dial(ctx, "unix:"+listening.Addr().String())
		cancel()
		if err == nil {
			must(t, p.Close())
			continue
		}
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, handoff.ErrProtocol) {
			t.Fatalf("dialled: %v, want the context's error", err)
		}
	}
}

// The kernel lets a user without privileges have as many descriptors on their way as
// it may have open: who gives more waits until some have arrived.
func TestMoreThanTheKernelCarries(t *testing.T) {
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	low := unix.Rlimit{Cur: uint64(descriptors(t) + 30), Max: limit.Max}
	gifts := int(low.Cur) + 30
	proceed := make(chan struct{})
	path := t.TempDir() + "/slow.sock"
	listening, err := net.Listen("unix", path)
	must(t, err)
	defer func() { _ = listening.Close() }()
	accepted := make(chan net.Conn, 1)
	go func() { takeAll(t, listening, gifts, accepted, proceed) }()
	p := dial(t, "unix:"+path)
	taker := <-accepted
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	file, err := os.Open(os.DevNull)
	must(t, err)
	defer func() { _ = file.Close() }()
	var all sync.WaitGroup
	for range gifts {
		all.Go(func() {
			giveUpPrivileges(t)
			if err := p.SendFile(testContext(t), file, handoff.Meta{}); err != nil {
				t.Error(err)
			}
		})
	}
	// By then the kernel carries as many as it does; fewer where others of this user are on
	// their way too.
	unread(t, taker, p.Pending, gifts, frame.HeaderBytes*int(low.Cur+1))
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	all.Go(func() {
		giveUpPrivileges(t)
		var failure *handoff.Error
		err := p.SendFile(ctx, file, handoff.Meta{})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &failure) || failure.ID != 0 {
			t.Errorf("one more than the kernel carries: %v, want that nothing was sent", err)
		}
		close(proceed)
	})
	all.Wait()
	if p.Err() != nil {
		t.Errorf("the channel ended: %v", p.Err())
	}
}

// unread waits until everything is pending, and so many bytes of it wait to be read or
// they become no more.
func unread(t *testing.T, socket net.Conn, pending func() int, gifts, bytes int) {
	t.Helper()
	raw, err := socket.(*net.UnixConn).SyscallConn()
	must(t, err)
	last, since := 0, time.Now()
	for last < bytes && time.Since(since) < testTimeout/10 || pending() < gifts {
		now := 0
		must(t, raw.Control(func(fd uintptr) { now, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }))
		if now > last {
			last, since = now, time.Now()
		}
		time.Sleep(time.Millisecond)
	}
}

// takeAll reads nothing behind the hello until it may proceed, and then takes all.
func takeAll(t *testing.T, listening net.Listener, gifts int, accepted chan<- net.Conn, proceed <-chan struct{}) {
	socket, err := listening.Accept()
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(func() { _ = socket.Close() })
	hello := frame.Hello{Lowest: 1, Highest: 1, Takes: frame.TakesFiles, Window: wire.HandoffWindowCeiling}
	_, err = io.ReadFull(socket, make([]byte, frame.HelloBytes))
	if _, writeErr := socket.Write(hello.Append(nil)); err != nil || writeErr != nil {
		t.Error(err, writeErr)
		return
	}
	accepted <- socket
	<-proceed
	header := make([]byte, frame.HeaderBytes)
	for range gifts {
		if _, err := io.ReadFull(socket, header); err != nil {
			t.Error(err)
			return
		}
		gift, err := frame.ParseHeader(header, frame.Limits{})
		if err != nil {
			t.Error(err)
			return
		}
		taken := frame.Frame{Type: frame.Taken, ID: gift.ID}
		_, _ = socket.Write(taken.Append(nil))
	}
}

// giveUpPrivileges makes the goroutine's thread an ordinary one, which ends with it.
func giveUpPrivileges(t *testing.T) {
	runtime.LockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	err := unix.Capget(&header, &sets[0])
	sets[0].Effective &^= 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_RESOURCE
	if err := errors.Join(err, unix.Capset(&header, &sets[0])); err != nil {
		t.Error(err)
	}
}
