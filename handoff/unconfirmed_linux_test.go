package handoff_test

import (
	"testing"

	"golang.org/x/sys/unix"
)

// What could not be taken, because its giver listens no more, is the giver's: it is
// closed and not shut down.
func TestWhatIsNotTakenIsNotShutDown(t *testing.T) {
	l, address := listen(t)
	a := attack(t, address)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer func() { _ = unix.Close(pair[0]); _ = unix.Close(pair[1]) }()
	a.send(encoded(1, nil), pair[0])
	a.awaitRead()
	must(t, a.socket.CloseRead())
	accepted(l)

	// It ends the channel when it has let go of the connection.
	raw, err := a.socket.SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) {
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, int(testTimeout.Milliseconds()))
	}))
	must(t, err)
	if _, err := unix.Write(pair[0], []byte("mine")); err != nil {
		t.Errorf("the giver cannot write any more: %v", err)
	}
	text := make([]byte, 8)
	if n, err := unix.Read(pair[1], text); err != nil || string(text[:n]) != "mine" {
		t.Errorf("the client read %q, %v", text[:max(n, 0)], err)
	}
}
