package unixsocket_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/rights/rightstest"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/unixsocket"
)

// accepted returns a connection to a listener, as the listener accepts it, and its caller.
func accepted(t *testing.T, listener net.Listener) (server, caller *net.UnixConn) {
	t.Helper()
	dialled, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close() })
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.UnixConn), dialled.(*net.UnixConn)
}

func option(t *testing.T, of *net.UnixConn, name int) (value int, err error) {
	t.Helper()
	raw, err := of.SyscallConn()
	if err == nil {
		if failed := raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, name) }); failed != nil {
			t.Fatal(failed)
		}
	}
	return value, err
}

// For relies on it that connections have these options of their listener.
func TestConnectionsRefuseWhatTheirListenerRefuses(t *testing.T) {
	listener, err := listen(t, filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	server, caller := accepted(t, listener)
	for _, name := range []int{unix.SO_PASSCRED, unix.SO_PASSPIDFD, unix.SO_PASSRIGHTS, unix.SO_PASSSEC} {
		if value, err := option(t, server, name); value != 0 || err != nil && !errors.Is(err, unix.ENOPROTOOPT) {
			t.Errorf("option %d is %d, %v", name, value, err)
		}
	}
	wrapped := unixsocket.For(listener).Wrap(server)
	_, known := option(t, server, unix.SO_PASSRIGHTS)
	if _, _, err := caller.WriteMsgUnix([]byte("x"), unix.UnixRights(0), nil); known == nil && !errors.Is(err, unix.EPERM) {
		t.Errorf("descriptors were sent: %v", err)
	} else if known != nil {
		if _, err := wrapped.Read(make([]byte, 1)); !errors.Is(err, transport.ErrDescriptors) {
			t.Errorf("descriptors were not noticed: %v", err)
		}
	}
}

// Callers may have sent descriptors to a listener that lets them pass, and to one that was
// made elsewhere.
func TestDescriptorsAreNoticedWhereTheListenerLetsThemPass(t *testing.T) {
	passing, err := listenWith(t, filepath.Join(t.TempDir(), "s"), transport.ListenOptions{GroupID: -1, PassRights: true})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	for _, listener := range []net.Listener{passing, elsewhere} {
		defer listener.Close()
		server, caller := accepted(t, listener)
		if _, _, err := caller.WriteMsgUnix([]byte("x"), unix.UnixRights(0), nil); err != nil {
			t.Fatal(err)
		}
		before := descriptors(t)
		if _, err := unixsocket.For(listener).Wrap(server).Read(make([]byte, 1)); !errors.Is(err, transport.ErrDescriptors) {
			t.Errorf("got %v", err)
		}
		wantDescriptors(t, before)
	}
}

// The same on kernels that cannot refuse descriptors.
func TestDescriptorsAreNoticedOnOldKernels(t *testing.T) {
	if !rightstest.OnOldKernel(t) {
		return
	}
	TestConnectionsRefuseWhatTheirListenerRefuses(t)
}

func TestAcceptEndsWithTheListener(t *testing.T) {
	for range 50 {
		listener, err := listen(t, filepath.Join(t.TempDir(), "s"))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		for range 2 {
			go func() {
				_, err := listener.Accept()
				ended <- err
			}()
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			select {
			case err := <-ended:
				if !errors.Is(err, net.ErrClosed) {
					t.Fatalf("got %v", err)
				}
			case <-time.After(patience):
				t.Fatalf("Accept still waits %v after Close", patience)
			}
		}
	}
}

// Each of those that have the socket takes a caller for which others waited, too.
func TestSeveralAcceptFromOneSocket(t *testing.T) {
	const callers = 200
	listener, err := listen(t, filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	file, err := listener.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	copied, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	came := make(chan net.Conn, callers)
	for _, from := range []net.Listener{listener, copied} {
		go func() {
			for {
				conn, err := from.Accept()
				if err != nil {
					return
				}
				came <- conn
			}
		}()
	}
	for n := range callers {
		caller, err := net.Dial("unix", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer caller.Close()
		select {
		case conn := <-came:
			defer conn.Close()
		case <-time.After(patience):
			t.Fatalf("caller %d waits for %v", n, patience)
		}
	}
}
