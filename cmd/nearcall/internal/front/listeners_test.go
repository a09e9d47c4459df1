package front

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/config"
)

// Errors of addresses say what helps.
func TestWayOut(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.EACCES:     "CAP_NET_BIND_SERVICE",
		syscall.EADDRINUSE: "another program",
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
