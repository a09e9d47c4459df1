package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBusyCounts(t *testing.T) {
	for _, test := range []struct {
		cpus, processors int
		busy             []int
	}{
		{1, 1, []int{0, 1}},
		{2, 2, []int{0, 1, 2}},
		{8, 8, []int{0, 2, 4, 6, 8}},
		{15, 15, []int{0, 4, 8, 12, 15}},
		{16, 16, []int{0, 4, 8, 12, 16}},
		{39, 39, []int{0, 10, 20, 30, 39}},
		{48, 40, []int{0, 5, 10, 15, 20, 25, 30, 35}},
	} {
		processors, busy := busyCounts(test.cpus)
		if processors != test.processors || !slices.Equal(busy, test.busy) {
			t.Errorf("%d CPUs: %d processors, busy %v", test.cpus, processors, busy)
		}
	}
}

// A row that is asked for by name has to be one.
func TestRowNamesDiffer(t *testing.T) {
	type row struct {
		name string
		size int
	}
	seen := map[row]string{}
	for _, g := range (tools{}).groups() {
		for _, plan := range g.rows {
			key := row{plan.name, plan.size}
			if other, found := seen[key]; found {
				t.Errorf("%s of %d bytes is in %s and in %s", plan.name, plan.size, other, g.name)
			}
			seen[key] = g.name
		}
	}
}

func TestPaceOfOnlyFull(t *testing.T) {
	own := pace{rounds: 5, length: time.Second, warmUp: 30 * time.Millisecond}
	if got := fullPace.of(group{onlyFull: &own}); got != own {
		t.Errorf("a full run has %v", got)
	}
	if got := quickPace.of(group{onlyFull: &own}); got.rounds != 2 || got.length != quickPace.length || got.warmUp != 20*time.Millisecond {
		t.Errorf("a quick run has %v", got)
	}
}

// Who calls once has no shared memory: a row that says so would show the socket.
func TestOneShotsHaveNoMemory(t *testing.T) {
	for _, g := range (tools{}).oneShotGroups() {
		if len(g.rows) != 20 {
			t.Errorf("%s has %d rows", g.name, len(g.rows))
		}
		for _, row := range g.rows {
			if strings.HasPrefix(row.name, "oneshot-") && row.route == byMemory && row.server == manyServer {
				t.Errorf("%s would not go through shared memory", row.name)
			}
		}
		if len(g.leftOut) != 1 || !strings.HasPrefix(g.leftOut[0].Group, g.name) || g.leftOut[0].Why == "" {
			t.Errorf("%s does not say what it leaves out: %v", g.name, g.leftOut)
		}
	}
}
