package unixsocket_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

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
