package main

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/nearcall/nearcall/internal/wire"
)

func TestEventsComeInOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var all events
	for range 1000 {
		all.push(event{at: random.Uint64N(500)})
	}
	last := uint64(0)
	for range 1000 {
		next := all.pop().at
		if next < last {
			t.Fatalf("an event of %d comes after one of %d", next, last)
		}
		last = next
	}
}

func TestSimulationIsTheSameForASeed(t *testing.T) {
	s := scenario{policy: nearestFirst, load: 0.8, length: 100 * millisecond, cut: 50 * millisecond}
	if first, again := simulate(s, 7), simulate(s, 7); !reflect.DeepEqual(first, again) {
		t.Error("two runs with one seed differ")
	}
	if reflect.DeepEqual(simulate(s, 7), simulate(s, 8)) {
		t.Error("two seeds have the same run")
	}
}

// A host on its own is the queue M/M/4, whose mean times are known.
func TestQueueIsAsTheorySays(t *testing.T) {
	r := simulate(scenario{policy: ownHost, load: 0.8, length: 2 * second, warm: 500 * millisecond}, 1)
	sum := 0.0
	for _, took := range r.times {
		sum += float64(took) / millisecond
	}
	mean := sum/float64(len(r.times)) - float64(withinHost)/millisecond
	// Erlang's C for 4 workers at 80 % is 0.596; a call waits 0.596/(4*(1-0.8)) ms on average.
	const want = 1 + 0.596/(4*0.2)
	if mean < 0.95*want || mean > 1.05*want {
		t.Errorf("calls took %.3f ms on average, want %.3f", mean, want)
	}
}

func TestPageIsFilled(t *testing.T) {
	page, err := filled("before\n<!-- table lists -->\nold\n<!-- end -->\nafter\n")
	if again, _ := filled(page); err != nil || again != page || len(page) < 300 {
		t.Errorf("%v: %q, then %q", err, page, again)
	}
	if _, err := filled("<!-- table none -->\n<!-- end -->"); err == nil {
		t.Error("a table that nobody computes is accepted")
	}
}

func TestServersUsed(t *testing.T) {
	for others, want := range map[int]float64{0: 0, 2: 2, 16: 16, 17: 17} {
		if got := serversUsed(others); got < want-0.01 || got > want+0.01 {
			t.Errorf("%.2f of %d servers are used, want %.2f", got, others, want)
		}
	}
	// Each function draws 16 of very many servers, hardly ever the same.
	if got, most := serversUsed(1e6), float64(placesPerDistance*functionsPerServer); got > most || got < 0.99*most {
		t.Errorf("%.0f of a million servers are used, want nearly %.0f", got, most)
	}
}

// What a program subscribes to is known to its engine, and each connection has two ends.
func TestShapesHoldTogether(t *testing.T) {
	for _, s := range shapes(1_000) {
		if s.known < ownSubjects+sharedSubjects || s.connections() < 2 || 2*s.inAll < s.engines {
			t.Errorf("%s: %+v", s.name, s)
		}
	}
	if mesh := shapes(10)[0]; mesh.inAll != 45*routesPerPair || mesh.known != 10*(15+functionsPerServer) {
		t.Errorf("ten engines of one cluster: %+v", mesh)
	}
}

func TestBoundsAreFirstOnes(t *testing.T) {
	last := 0
	for _, b := range bounds() {
		if b.hosts < last || b.hosts <= zoneCount || b.hosts >= hostsMost {
			t.Errorf("%s: with %d hosts, after %d", b.name, b.hosts, last)
		}
		last = b.hosts
	}
}

func TestWindows(t *testing.T) {
	if got := windowsMiB(256); got != 256 {
		t.Errorf("256 connections hold %.1f MiB, want whole windows", got)
	}
	if got := windowsMiB(wire.BusStreamsMax); got < 256 || got > 4*256 {
		t.Errorf("all connections of a hub hold %.1f MiB, want at most four times as much as 256", got)
	}
}
