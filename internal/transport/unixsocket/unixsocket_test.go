package unixsocket_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/rights/rightstest"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/transporttest"
	"github.com/nearcall/nearcall/internal/transport/unixsocket"
)

func TestTransport(t *testing.T) {
	transporttest.Run(t, unixsocket.Transport{}, func(t *testing.T) string {
		return "unix:" + filepath.Join(t.TempDir(), "s")
	})
}

func TestAbstract(t *testing.T) {
	names := new(atomic.Int64)
	transporttest.Run(t, unixsocket.Transport{}, func(*testing.T) string {
		return fmt.Sprintf("unix:@nearcall-test-%d-%d", os.Getpid(), names.Add(1))
	})
}

func listen(t *testing.T, path string) (net.Listener, error) {
	t.Helper()
	return listenWith(t, path, transport.ListenOptions{GroupID: -1})
}

func listenWith(t *testing.T, path string, options transport.ListenOptions) (net.Listener, error) {
	t.Helper()
	a, err := address.Parse("unix:"+path, false)
	if err != nil {
		t.Fatal(err)
	}
	return unixsocket.Transport{}.Listen(t.Context(), a, options)
}

func TestLongestPath(t *testing.T) {
	directory, err := os.MkdirTemp("/tmp", "n")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(directory)
	path := directory + "/" + strings.Repeat("p", address.UnixPathBytesMax-len(directory)-1)
	listener, err := listen(t, path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// TestTemporaryNameStaysInTheDirectory: a server that may write to its own
// directory alone can listen there, however long the path is.
func TestTemporaryNameStaysInTheDirectory(t *testing.T) {
	base, err := os.MkdirTemp("/tmp", "n")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	const nameBytes = 6
	directory := base + "/" + strings.Repeat("d", address.UnixPathBytesMax-len(base)-2-nameBytes)
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, base, unix.IN_CREATE); err != nil {
		t.Fatal(err)
	}
	listener, err := listen(t, directory+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	full, err := listen(t, directory+"/"+strings.Repeat("s", nameBytes))
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	if n, err := unix.Read(watch, make([]byte, 4096)); err != unix.EAGAIN {
		t.Errorf("something was created outside the directory (%d, %v)", n, err)
	}
}

func TestOneOfManyStartsWins(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	const starts = 200
	won := make(chan net.Listener, starts)
	var all sync.WaitGroup
	for range starts {
		all.Add(1)
		go func() {
			defer all.Done()
			listener, err := listen(t, path)
			if err == nil {
				won <- listener
			} else if !errors.Is(err, transport.ErrInUse) {
				t.Errorf("Listen: %v, want ErrInUse", err)
			}
		}()
	}
	all.Wait()
	if len(won) != 1 {
		t.Errorf("%d of %d servers listen, want 1", len(won), starts)
	}
	(<-won).Close()
}

func TestCloseLeavesAnothersSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := listen(t, path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the file that took the socket's place is gone: %v", err)
	}
}

// connect returns a connection and the descriptor of its other end.
func connect(t *testing.T) (conn net.Conn, peer int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[1]) })
	file := os.NewFile(uintptr(fds[0]), "pair")
	plain, err := net.FileConn(file)
	file.Close()
	if err != nil {
		t.Fatal(err)
	}
	conn = unixsocket.Transport{}.Wrap(plain)
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	return conn, fds[1]
}

// Descriptors that may come are close-on-exec and come with the last bytes read.
func TestReadTakesDescriptors(t *testing.T) {
	for sent, want := range map[int]transport.Descriptors{0: {}, 1: {Numbers: make([]int, 1)},
		2: {Numbers: make([]int, 2)}, 3: {Numbers: make([]int, 2), Truncated: true}} {
		conn, peer := connect(t)
		local := conn.(transport.LocalConn)
		local.ExpectDescriptors(2)
		before := descriptors(t)
		unix.Write(peer, []byte("a"))
		if err := unix.Sendmsg(peer, []byte("b"), unix.UnixRights(make([]int, sent)...), nil, 0); err != nil {
			t.Fatal(err)
		}
		unix.Write(peer, []byte("c"))
		buffer := make([]byte, 10)
		n, err := local.Read(buffer)
		got := local.Received()
		if err != nil || sent > 0 && n != 2 || len(got.Numbers) != len(want.Numbers) || got.Truncated != want.Truncated {
			t.Errorf("%d were sent: %d bytes, %d files, truncated %v, %v", sent, n, len(got.Numbers), got.Truncated, err)
		}
		for _, number := range got.Numbers {
			if flags, err := unix.FcntlInt(uintptr(number), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("flags %d, %v: not close-on-exec", flags, err)
			}
		}
		got.Close()
		wantDescriptors(t, before)
	}
}

func TestReadNoticesDescriptors(t *testing.T) {
	if !rightstest.OnOldKernel(t) {
		return
	}
	conn, peer := connect(t)
	unix.Write(peer, []byte("ab"))
	buffer := make([]byte, 10)
	if n, err := conn.Read(buffer); n != 2 || err != nil {
		t.Fatalf("Read = %d, %v", n, err)
	}
	if err := unix.Sendmsg(peer, []byte("c"), unix.UnixRights(0, 1, 2), nil, 0); err != nil {
		t.Fatal(err)
	}
	before := descriptors(t)
	if _, err := conn.Read(buffer); !errors.Is(err, transport.ErrDescriptors) {
		t.Errorf("Read: %v, want ErrDescriptors", err)
	}
	wantDescriptors(t, before)
}

// What the listener has the kernel add to each read is neither taken for descriptors nor left open.
func TestCredentialsAreRefused(t *testing.T) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	rightstest.PassCredentials(t, listener)
	before := rightstest.ProcessDescriptors(t)
	for _, expected := range []int{0, 1} {
		caller, err := net.Dial("unix", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer caller.Close()
		accepted, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		server := unixsocket.Transport{}.Wrap(accepted).(transport.LocalConn)
		defer server.Close()
		server.ExpectDescriptors(expected)
		caller.Write([]byte("x"))
		if _, err := server.Read(make([]byte, 1)); err != nil {
			t.Errorf("Read with %d descriptors expected: %v", expected, err)
		}
		if received := server.Received(); len(received.Numbers) > 0 || received.Truncated {
			t.Errorf("received %v", received)
		}
	}
	if now := rightstest.ProcessDescriptors(t); now != before {
		t.Errorf("%d descriptors of processes are open, %d before", now, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// wantDescriptors waits until as many are open: those that came are closed elsewhere.
func wantDescriptors(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); descriptors(t) != before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d descriptors are open, %d before", descriptors(t), before)
		}
	}
}
