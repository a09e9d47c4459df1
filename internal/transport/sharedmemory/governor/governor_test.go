package governor_test

import (
	"testing"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory/governor"
)

// TestWhatAPeerClaims: whatever a peer makes this side believe of what sleeping costs,
// spinning in vain ends soon, and is tried seldom.
func TestWhatAPeerClaims(t *testing.T) {
	const calls, longestNs = 100_000, uint64(1_000_000)
	for name, begins := range map[string]bool{"caller": true, "server": false} {
		g := traced(begins, 1<<62)
		nowNs, spunNs, sleepNs := uint64(1_000_000), uint64(0), uint64(5_000_000)
		for range calls {
			if g.Due(nowNs) {
				g.Look(nowNs, &governor.Facts{Processors: 2, CPU: 1, PeerCPU: 2, PeerAwake: 1, Machine: 2, Runnable: 2})
			}
			if g.Spins() {
				limitNs := g.LimitNs()
				if limitNs > longestNs {
					t.Fatalf("%s: a spin may last %d ns", name, limitNs)
				}
				spunNs += limitNs
				nowNs += limitNs
				g.Missed(limitNs, nowNs)
			}
			nowNs += sleepNs
			g.Slept(2 * sleepNs)
			g.Paused(sleepNs)
		}
		if share := float64(spunNs) / float64(nowNs); share > 0.05 {
			t.Errorf("%s: spun in vain for %.3f of the time", name, share)
		}
	}
}

// TestNothingIsKnown: a side that cannot tell what else runs, or how many CPUs there are,
// takes nobody for a neighbour.
func TestNothingIsKnown(t *testing.T) {
	for _, unknown := range []governor.Facts{{Processors: 2, PeerAwake: 1}, {Processors: 2, PeerAwake: 1, Runnable: 3}, {Processors: 2, PeerAwake: 1, Machine: 2}} {
		g := traced(true, 20_000)
		for nowNs := uint64(1_000_000); nowNs < 2_000_000_000; nowNs += 100_000 {
			g.Hit()
			if g.Due(nowNs) {
				g.Look(nowNs, &unknown)
			}
			if !g.Spins() {
				t.Fatalf("%+v: it rests after %d ns, for reason %d", unknown, nowNs, g.Reason())
			}
		}
	}
}
