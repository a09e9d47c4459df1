package main

import (
	"slices"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/protocol"
)

// wanting is a row of a fake caller whose calls have to go by shared memory.
func wanting(t *testing.T, name, behaviour string) rowPlan {
	row := fakeRow(t, name, behaviour)
	row.wants = protocol.SharedMemory
	return row
}

func TestRowThatWentAnotherWayFails(t *testing.T) {
	allowed := wanting(t, "may fall back", "falls back")
	allowed.mayFallBack = true
	rows := measureFakes(t, wanting(t, "falls back", "falls back"), allowed, wanting(t, "stays", ""), wanting(t, "silent", "cannot tell"))
	for i, want := range []struct{ failed, transport string }{
		{"round 2: its calls went by unix socket, not by shared memory", ""},
		{"", "unix socket, shared memory"},
		{"", "shared memory"},
		{"round 1: its calls went by what the caller cannot tell, not by shared memory", ""},
	} {
		if row := rows[i].reduced(); row.Failed != want.failed || row.Transport != want.transport {
			t.Errorf("%s: failed %q, transport %q", row.Name, row.Failed, row.Transport)
		}
	}
}

func TestRoutesWantTheirTransport(t *testing.T) {
	wants := map[string]protocol.Transport{
		"nearcall-c-shm": protocol.SharedMemory, "nearcall-c-socket": protocol.Socket, "nearcall-c-embed": protocol.SameProcess,
		"nearcall-c-embed-child": protocol.SharedMemory, "nearcall-go-64-shared": protocol.Socket, "resident-c-shm": protocol.SharedMemory,
		"many-shm-one-100": protocol.SharedMemory, "many-eventloop-one-100": protocol.Socket, "transport-nearcall-tcp-500": protocol.TCP,
		"simple-json": protocol.Unknown, "floor-go-socket": protocol.Unknown, "peer-nearcall-go-cold-caller": protocol.Unknown,
	}
	for _, g := range (tools{}).groups() {
		for _, row := range g.rows {
			if wanted, listed := wants[row.name]; listed && row.wants != wanted {
				t.Errorf("%s wants %q, not %q", row.name, row.wants, wanted)
			}
			delete(wants, row.name)
			if fallsBack := slices.Contains([]string{"one-cpu", "half-cpu"}, g.name); row.mayFallBack != fallsBack {
				t.Errorf("%s may fall back: %v", row.name, row.mayFallBack)
			}
		}
	}
	if len(wants) > 0 {
		t.Errorf("no such rows: %v", wants)
	}
}
