package server

import (
	"math"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/internal/wire"
)

func TestFitToDescriptors(t *testing.T) {
	for _, c := range []struct {
		descriptors          uint64
		all, perUser         int
		allThen, perUserThen int
	}{
		{math.MaxUint64, wire.ConnectionsMax, wire.ConnectionsPerUserMax, wire.ConnectionsMax, wire.ConnectionsPerUserMax},
		{20000, wire.ConnectionsMax, wire.ConnectionsPerUserMax, wire.ConnectionsMax, wire.ConnectionsPerUserMax},
		{1024, wire.ConnectionsMax, wire.ConnectionsPerUserMax, 864, 648},
		{1024, 800, 800, 800, 800},
		{1024, 16384, 10, 864, 10},
		{16, wire.ConnectionsMax, wire.ConnectionsPerUserMax, 10, 7},
		{0, wire.ConnectionsMax, wire.ConnectionsPerUserMax, 1, 1},
	} {
		var table userTable
		table.init(&config{connectionsMax: c.all, connectionsPerUserMax: c.perUser})
		for range 2 { // the second time nothing is new
			if all, perUser, _ := table.fit(c.descriptors); all != c.allThen || perUser != c.perUserThen {
				t.Errorf("%d and %d connections with %d descriptors: %d and %d, want %d and %d", c.all, c.perUser, c.descriptors, all, perUser, c.allThen, c.perUserThen)
			}
		}
		if _, _, again := table.fit(c.descriptors); again {
			t.Errorf("%d descriptors: lowered again", c.descriptors)
		}
	}
}

// TestFittedLimits: the rest is for others, an eighth for operators, and no option raises that.
func TestFittedLimits(t *testing.T) {
	const descriptors, perUser, others, all = 300, 173, 203, 231
	var table userTable
	table.init(&config{connectionsMax: wire.ConnectionsMax, connectionsPerUserMax: wire.ConnectionsPerUserMax})
	table.fit(descriptors)
	joins := func(peer Peer) (joined int) {
		for {
			if _, err := table.join(&peer); err != nil {
				if !strings.Contains(err.Error(), "RLIMIT_NOFILE") {
					t.Errorf("%v says nothing of the limit of descriptors", err)
				}
				return joined
			}
			joined++
		}
	}
	operator := Peer{Local: true, UserID: 0}
	one, other := Peer{Address: "192.0.2.1:1"}, Peer{Address: "192.0.2.2:1"}
	if a, b, c := joins(one), joins(other), joins(operator); a != perUser || b != others-perUser || c != all-others {
		t.Errorf("%d connections of a user, %d of another, %d of root; want %d, %d, %d", a, b, c, perUser, others-perUser, all-others)
	}
}
