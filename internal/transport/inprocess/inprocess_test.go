package inprocess_test

import (
	"testing"

	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/inprocess"
	"github.com/nearcall/nearcall/internal/transport/transporttest"
)

func TestTransport(t *testing.T) {
	for name, certainty := range map[string]transport.Certainty{"TakenOnly": transport.TakenOnly, "UnreadReported": transport.UnreadReported} {
		t.Run(name, func(t *testing.T) {
			network := &inprocess.Network{Certainty: certainty}
			transporttest.Run(t, network, func(*testing.T) string { return "tcp:127.0.0.1:0" })
		})
	}
}
