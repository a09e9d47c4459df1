package rightstest

import (
	"net"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// What a trap has to send, and how long it lingers for that.
const (
	unsentBytes      = 64 << 10
	lingerSeconds    = 60
	receiveTooLittle = 1
)

// A Trapper makes sockets whose last closing waits: they linger for data that nobody takes.
type Trapper struct {
	listener int
	at       unix.Sockaddr
}

// NewTrapper returns one that lives as long as the test.
func NewTrapper(t testing.TB) *Trapper {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	t.Cleanup(func() { unix.Close(listener) })
	must(unix.SetsockoptInt(listener, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveTooLittle))
	must(unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must(unix.Listen(listener, unix.SOMAXCONN))
	at, err := unix.Getsockname(listener)
	must(err)
	return &Trapper{listener: listener, at: at}
}

// Make returns the descriptor of a trap, which is the caller's.
func (p *Trapper) Make() (int, error) {
	made, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err = unix.Connect(made, p.at); err == nil {
		_, err = unix.SendmsgN(made, make([]byte, unsentBytes), nil, nil, unix.MSG_DONTWAIT)
	}
	if err == nil {
		err = unix.SetsockoptLinger(made, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: lingerSeconds})
	}
	return made, err
}

// LeaveTo sends a trap, and leaves its last reference to a receiver in this process: that
// does not get to run before this side has closed its own.
func (p *Trapper) LeaveTo(socket *net.UnixConn, data []byte) error {
	trap, err := p.Make()
	if err != nil {
		return err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	_, _, err = socket.WriteMsgUnix(data, unix.UnixRights(trap), nil)
	if err != nil {
		// Nobody else has it.
		_ = unix.SetsockoptLinger(trap, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
	}
	_ = unix.Close(trap)
	return err
}
