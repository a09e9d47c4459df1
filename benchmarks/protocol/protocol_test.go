package protocol_test

import (
	"encoding/binary"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/protocol"
)

func TestTransportsHaveTheNamesOfClients(t *testing.T) {
	// As a client says it, and as ../README.md and the callers in other languages count.
	for name, want := range map[string]protocol.Transport{"": 0, "unix socket": 1, "shared memory": 2, "same process": 3, "tcp": 4, "carrier pigeon": 0} {
		got := protocol.TransportOf(name)
		if got != want {
			t.Errorf("%q is %d, want %d", name, got, want)
		}
		if want != protocol.Unknown && got.String() != name {
			t.Errorf("%q is named %q", name, got)
		}
	}
}

func TestHeadIsSixNumbers(t *testing.T) {
	if bytes := binary.Size(protocol.Head{}); bytes != 6*8 {
		t.Errorf("a head has %d bytes", bytes)
	}
}
