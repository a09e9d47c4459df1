package front

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/config"
)

// Errors of addresses say what helps.
func TestWayOut(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.EACCES:     "CAP_NET_BIND_SERVICE",
		syscall.EADDRINUSE: "--takeover",
		syscall.EMFILE:     "LimitNOFILE=",
	} {
		if got := wayOut(os.NewSyscallError("bind", errno)); !strings.Contains(got, want) {
			t.Errorf("%v: %q does not say %s", errno, got, want)
		}
	}
}

// Who gets a connection need not set what most servers set for their own: receivers in C and
// Python take it as it is.
func TestConnectionsSendAtOnce(t *testing.T) {
	listen := config.Listen{Address: "tcp:127.0.0.1:0"}
	socket, err := open(t.Context(), listen)
	if err != nil {
		t.Fatal(err)
	}
	l, err := newListener(socket, listen, prometheus.NewCounter(prometheus.CounterOpts{Name: "accepted"}))
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", socket.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	l.accept(func(c *connection) {
		defer c.Close()
		if set, err := unix.GetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY); set != 1 || err != nil {
			t.Errorf("TCP_NODELAY is %d, %v", set, err)
		}
		l.stop(false)
	}, func(err error) { t.Error(err) })
	if err := l.close(); err != nil {
		t.Error(err)
	}
}

// Another process that has a listening socket can make it block. Then the acceptor waits in
// the kernel, and nobody else does, although the front has one processor. If all did, a
// connection that comes much later would be what ends that.
func TestListenerThatBlocks(t *testing.T) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(socket)
	err = errors.Join(unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(socket, 1))
	at, errAt := unix.Getsockname(socket)
	if err := errors.Join(err, errAt); err != nil {
		t.Fatal(err)
	}
	const later = 2 * time.Second
	client := exec.Command("bash", "-c", fmt.Sprintf("sleep %v; : </dev/tcp/127.0.0.1/%d", later.Seconds(), at.(*unix.SockaddrInet4).Port))
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	returned := make(chan error, 1)
	began := time.Now()
	go func() {
		c, _, err := accept(uintptr(socket), false)
		if err == nil {
			err = c.Close()
		}
		returned <- err
	}()
	runtime.Gosched()
	if waited := time.Since(began); waited > later/2 {
		t.Errorf("nothing else ran for %v", waited)
	}
	if err := errors.Join(<-returned, client.Wait()); err != nil {
		t.Error(err)
	}
}
