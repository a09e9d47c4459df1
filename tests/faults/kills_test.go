package faults_test

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nearcall/nearcall/tests/processes"
)

const (
	defaultKills = 12_000
	// Of all kills one of that many is a server's: a server takes as long to
	// start as twenty callers to live and die.
	serverKillsEvery = 16
	// Killed between two looks at what the server holds.
	batchKills = 4000
	settleTime = time.Second
	// What the server's garbage collector may keep of a busy time, above what
	// it kept of the first batch.
	growthBytesMax = 48 << 20
	// Of the calls of quick functions that lose their server while they use
	// shared memory this part may end unknown: the server dies within them.
	unknownPercentMax = 25
	// Of the calls that lose their server and never ran, one of that many may
	// not know it: those that it lost between the mark and the ledger.
	blindPercentMax = 10
)

// TestKills kills callers and servers while they call through shared memory as
// fast as they can. Every outcome is held against the ledger, and what a dead
// caller had is given back at once.
func TestKills(t *testing.T) {
	kills := processes.Setting(t, "NEARCALL_KILLS", defaultKills)
	ofServers := max(1, kills/serverKillsEvery)
	t.Run("servers", func(t *testing.T) { killServers(t, ofServers) })
	t.Run("callers", func(t *testing.T) { killCallers(t, kills-ofServers) })
}

func killServers(t *testing.T, kills int) {
	r := newFaultRun(t, built.ledger, true)
	r.serverKillsMax, r.stopEvery, r.killEvery = kills, 100, 1000
	r.torment()
	r.check()
}

func killCallers(t *testing.T, kills int) {
	r := newFaultRun(t, built.ledger, true)
	server := r.startServer(r.path)
	defer server.Kill()
	before := processes.HoldsNow(t, server, r.path)
	resident := 0
	for left := kills; left > 0; left -= batchKills {
		r.killBatch(min(left, batchKills))
		processes.WaitForBaseline(t, server, r.path, before, settleTime+r.witness.Lateness())
		now := server.ResidentBytes(t)
		if resident == 0 {
			resident = now
		}
		if now > resident+growthBytesMax {
			t.Errorf("the server has %d MiB more than after the first batch, %d are allowed", (now-resident)>>20, growthBytesMax>>20)
		}
	}
	t.Logf("the server has %d KiB more than after the first batch", (server.ResidentBytes(t)-resident)>>10)
	all := processes.Statistics(t, r.path)
	if all.SharedMemoryTotal < uint64(kills/2) {
		t.Errorf("%d connections of %d callers were given memory", all.SharedMemoryTotal, kills)
	}
	if all.ViolationsTotal > 0 {
		t.Errorf("the server counts %d violations", all.ViolationsTotal)
	}
	r.check()
}

// killBatch lets several killers work side by side, to their end.
func (r *faultRun) killBatch(kills int) {
	var killers sync.WaitGroup
	for range callersAtATime {
		share := kills / callersAtATime
		p := r.startCaller(callsPerCaller*share, strconv.Itoa(share), strconv.Itoa(r.number(1<<30)))
		killers.Go(func() {
			r.readRecords(p)
			if err := p.Wait(); err != nil {
				r.t.Errorf("a killer ended with %v", err)
			}
			r.callerKills.Add(int64(share))
		})
	}
	killers.Wait()
}
