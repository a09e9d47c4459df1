package tcp_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/tcp"
	"github.com/nearcall/nearcall/internal/wire"
	"golang.org/x/sys/unix"
)

// TestAHostThatVanishesIsNoticed: it sends nothing, so the kernel of either side has to ask.
func TestAHostThatVanishesIsNoticed(t *testing.T) {
	for name, row := range map[string]struct {
		silence              time.Duration
		asks, unansweredMost int
	}{
		"by default":   {0, wire.TcpKeepAliveMs / 1000, wire.TcpUnansweredMs},
		"off":          {-1, wire.TcpKeepAliveMs / 1000, wire.TcpUnansweredMs},
		"a second":     {time.Second, 1, 1000},
		"ten seconds":  {10 * time.Second, 5, 10_000},
		"five minutes": {5 * time.Minute, wire.TcpKeepAliveMs / 1000, 300_000},
	} {
		t.Run(name, func(t *testing.T) {
			for side, conn := range pair(t, tcp.Transport{Silence: row.silence}) {
				for _, option := range []struct {
					name                string
					level, number, want int
				}{
					{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
					{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, row.asks},
					{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, row.asks},
					{"TCP_USER_TIMEOUT", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, row.unansweredMost},
				} {
					if got := optionOf(t, conn.(*net.TCPConn), option.level, option.number); got != option.want {
						t.Errorf("%s: %s is %d, want %d", side, option.name, got, option.want)
					}
				}
			}
		})
	}
}

// pair returns both ends of a connection.
func pair(t *testing.T, over tcp.Transport) map[string]net.Conn {
	t.Helper()
	ctx := context.Background()
	listener, err := over.Listen(ctx, address.Address{Target: "127.0.0.1:0"}, transport.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialled, err := over.Dial(ctx, address.Address{Target: listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close() })
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	return map[string]net.Conn{"dialled": dialled, "accepted": over.Wrap(accepted)}
}

func optionOf(t *testing.T, conn *net.TCPConn, level, number int) (value int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if controlErr := raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), level, number) }); controlErr != nil {
		t.Fatal(controlErr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return value
}
