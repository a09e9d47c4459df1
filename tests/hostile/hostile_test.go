package hostile_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nearcall/nearcall/tests/processes"
)

const (
	attackersAtATime = 3
	defaultSeconds   = 60 // a round of each server
	roundSeconds     = 30
	settleBound      = 15 * time.Second
	// What the server's garbage collector may keep of a busy time, and with it
	// what the race detector remembers.
	growthBytesMax = 192 << 20
)

// TestHostileMemory lets callers do harm in their regions while others call
// beside them. Every other server is one that the race detector watches.
func TestHostileMemory(t *testing.T) {
	directory := t.TempDir()
	plain, watched := filepath.Join(directory, "testserver"), filepath.Join(directory, "testserver-race")
	if err := processes.BuildServer(plain); err != nil {
		t.Fatal(err)
	}
	if err := processes.BuildServer(watched, "-race"); err != nil {
		t.Fatal(err)
	}
	seed := processes.Seed(t)
	left := time.Duration(processes.Setting(t, "NEARCALL_HOSTILE_SECONDS", defaultSeconds)) * time.Second
	for round := uint64(0); left > 0; round++ {
		length := min(left, roundSeconds*time.Second)
		left -= length
		program := plain
		if round%2 == 1 {
			program = watched
		}
		t.Run(fmt.Sprintf("%d %s", round, filepath.Base(program)), func(t *testing.T) {
			attack(t, program, seed+round, length)
		})
	}
}

// attack is one round against a server of its own.
func attack(t *testing.T, program string, seed uint64, length time.Duration) {
	log := &processes.Log{Expected: "; connection closed"}
	path := processes.Socket(t)
	defer checkLog(t, log) // of all that was said, to the end
	server := processes.StartServer(t, log, path, program)
	defer server.Kill()
	all := newNames(seed)
	canaries := connectCanaries(t, all, path, seed)
	before := processes.HoldsNow(t, server, path)
	residentBefore := server.ResidentBytes(t)

	for _, c := range canaries {
		c.start()
	}
	attackers := unleash(t, all, path, seed, length)
	for _, c := range canaries {
		said, err := c.finish()
		if err != nil {
			t.Error(err)
		}
		if said != "" {
			t.Log(said)
		}
	}
	processes.WaitForBaseline(t, server, path, before, settleBound)
	grown := server.ResidentBytes(t) - residentBefore
	tell(t, attackers, log, grown)
	if grown > growthBytesMax {
		t.Errorf("the server has %d MiB more than before, %d are allowed", grown>>20, growthBytesMax>>20)
	}
	if given := processes.Statistics(t, path).SharedMemoryTotal; given < uint64(attackersAtATime) {
		t.Errorf("%d connections got shared memory: nothing was tested", given)
	}
}

func connectCanaries(t *testing.T, all *names, path string, seed uint64) (canaries []*canary) {
	t.Helper()
	for _, memory := range []bool{true, false} {
		c, err := newCanary(all, path, memory, seed)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.caller.Close() })
		canaries = append(canaries, c)
	}
	return canaries
}

func unleash(t *testing.T, all *names, path string, seed uint64, length time.Duration) (attackers []*attacker) {
	var together sync.WaitGroup
	stop := make(chan struct{})
	for i := range uint64(attackersAtATime) {
		a := &attacker{name: fmt.Sprintf("attacker %d", i), path: path, names: all, random: rand.New(rand.NewPCG(seed, i+1))}
		attackers = append(attackers, a)
		together.Go(func() {
			if err := a.attack(stop); err != nil {
				t.Error(err)
			}
		})
	}
	<-time.After(length)
	close(stop)
	together.Wait()
	return attackers
}

func tell(t *testing.T, attackers []*attacker, log *processes.Log, grown int) {
	var lives, calls, answers, strikes int
	for _, a := range attackers {
		lives, calls, answers, strikes = lives+a.lives, calls+a.calls, answers+a.answers, strikes+a.strikes
	}
	t.Logf("%d connections of attackers, %d calls, %d answers, %d strikes; %d connections were closed for a protocol error; %d KiB more than before",
		lives, calls, answers, strikes, log.Count(), grown>>10)
	if log.Count() == 0 || answers == 0 {
		t.Error("nothing was tested: no harm was noticed, or no call was answered")
	}
}

// checkLog fails for whatever the server said and nobody expected.
func checkLog(t *testing.T, log *processes.Log) {
	t.Helper()
	for i, line := range log.Lines("") {
		if i == 20 {
			t.Error("and more")
			return
		}
		t.Errorf("the server said: %s", line)
	}
}
