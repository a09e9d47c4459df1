package tcp_test

import (
	"context"
	"net"
	"testing"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/tcp"
	"github.com/nearcall/nearcall/internal/wire"
	"golang.org/x/sys/unix"
)

// TestAHostThatVanishesIsNoticed: it sends nothing, so the kernel of either side has to ask.
func TestAHostThatVanishesIsNoticed(t *testing.T) {
	ctx := context.Background()
	listener, err := tcp.Transport{}.Listen(ctx, address.Address{Target: "127.0.0.1:0"}, transport.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialled, err := tcp.Transport{}.Dial(ctx, address.Address{Target: listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer dialled.Close()
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	for side, conn := range map[string]net.Conn{"dialled": dialled, "accepted": tcp.Transport{}.Wrap(accepted)} {
		for _, option := range []struct {
			name          string
			level, number int
			want          int
		}{
			{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
			{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, wire.TcpKeepAliveMs / 1000},
			{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, wire.TcpKeepAliveMs / 1000},
			{"TCP_USER_TIMEOUT", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, wire.TcpUnansweredMs},
		} {
			if got := optionOf(t, conn.(*net.TCPConn), option.level, option.number); got != option.want {
				t.Errorf("%s: %s is %d, want %d", side, option.name, got, option.want)
			}
		}
	}
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
