package unixsocket_test

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/rights/rightstest"
	"github.com/nearcall/nearcall/internal/transport"
)

// patience bounds what must not wait for anybody.
const patience = 5 * time.Second

// sendHeld leaves a pipe to a connection whose closing waits until letGo.
func sendHeld(t *testing.T, peer int) (letGo func()) {
	t.Helper()
	held, letGo := rightstest.HeldPipe(t)
	must(t, unix.Sendmsg(peer, []byte("x"), unix.UnixRights(held), nil, 0))
	must(t, unix.Close(held))
	return letGo
}

// A connection does not wait for what came unasked, neither who reads nor who closes.
func TestCloseDoesNotWaitForStrays(t *testing.T) {
	if !rightstest.OnOldKernel(t) {
		return
	}
	conn, peer := connect(t)
	defer sendHeld(t, peer)()
	rightstest.Within(t, patience, "reading what came with a held pipe", func() {
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, transport.ErrDescriptors) {
			t.Errorf("Read: %v, want ErrDescriptors", err)
		}
	})
	rightstest.Within(t, patience, "closing the connection", func() { must(t, conn.Close()) })
}

// Nor where this process can have no descriptor more, and the kernel closes it in the read.
func TestCloseDoesNotWaitForAReader(t *testing.T) {
	if !rightstest.OnOldKernel(t) {
		return
	}
	conn, peer := connect(t)
	letGo := sendHeld(t, peer)
	var former unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &former))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: former.Max}))
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &former)) }()
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = conn.Read(make([]byte, 1))
	}()
	awaitEmpty(t, conn)
	rightstest.Within(t, patience, "closing a connection while somebody reads", func() { must(t, conn.Close()) })
	rightstest.Within(t, patience, "the end that the peer is to see", func() {
		if n, err := unix.Read(peer, make([]byte, 1)); n != 0 || err != nil {
			t.Errorf("the peer reads %d bytes, %v", n, err)
		}
	})
	letGo()
	rightstest.Within(t, patience, "the read, when nobody has the pipe any more,", func() { <-read })
}

// awaitEmpty waits until what came was received, by whoever may not have returned from that.
func awaitEmpty(t *testing.T, conn net.Conn) {
	t.Helper()
	raw, err := conn.(syscall.Conn).SyscallConn()
	must(t, err)
	for end, left := time.Now().Add(patience), 1; left > 0; time.Sleep(time.Millisecond) {
		must(t, raw.Control(func(fd uintptr) { left, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }))
		must(t, err)
		if time.Now().After(end) {
			t.Fatalf("nobody has received what came after %v", patience)
		}
	}
}
