package tcp_test

import (
	"testing"

	"github.com/nearcall/nearcall/internal/transport/tcp"
	"github.com/nearcall/nearcall/internal/transport/transporttest"
)

func TestTransport(t *testing.T) {
	transporttest.Run(t, tcp.Transport{}, func(*testing.T) string { return "tcp:127.0.0.1:0" })
}
