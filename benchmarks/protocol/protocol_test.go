package protocol_test

import (
	"encoding/binary"
	"errors"
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

func TestACallerRefusesWhatItDoesNotDo(t *testing.T) {
	runs := 0
	run := protocol.AsFastAsItCan(func(protocol.Command) (protocol.Report, error) { runs++; return protocol.Report{}, nil })
	if _, err := run(protocol.Command{Length: 1}); err != nil || runs != 1 {
		t.Errorf("%d runs, %v", runs, err)
	}
	for _, c := range []protocol.Command{{Length: 1, PerSecond: 1}, {Length: 1, BeginNS: 1}} {
		if _, err := run(c); !errors.Is(err, protocol.ErrAsFastAsItCan) || runs != 1 {
			t.Errorf("%+v: %d runs, %v", c, runs, err)
		}
	}
}

func TestACallerRefusesWindowsThatItDoesNotCount(t *testing.T) {
	run := protocol.AsFastAsItCan(func(protocol.Command) (protocol.Report, error) { return protocol.Report{}, nil })
	if _, err := run(protocol.Command{Length: 2, Window: 1}); !errors.Is(err, protocol.ErrNoWindows) {
		t.Errorf("got %v", err)
	}
}

func TestHeadIsSixNumbers(t *testing.T) {
	if bytes := binary.Size(protocol.Head{}); bytes != 6*8 {
		t.Errorf("a head has %d bytes", bytes)
	}
}
