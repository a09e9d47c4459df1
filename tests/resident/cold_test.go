package resident_test

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nearcall/nearcall/tests/processes"
)

const (
	coldLaunchers = 500
	// coldScripts are as many as start in a time that a test may take where each
	// loads an interpreter when it is run plainly.
	coldScripts = 100
	// answerTimeout is the limit resident_answer_ms: later than that a launcher runs
	// the program plainly, and rightly.
	answerTimeout = 5 * time.Second
)

// All at once, when nothing is there: one of them starts the resident, and it answers all
// of them.
func TestManyLaunchersFromCold(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		count := coldLaunchers
		if !p.kind.isGo() {
			count = coldScripts
		}
		count = processes.Setting(t, "NEARCALL_LAUNCHERS", count)
		starts := p.path("starts")
		p.env = append(p.env, "PROGRAM_STARTS="+starts)
		results := p.atOnce(count)
		plainly, residents := 0, map[int]int{}
		for number, r := range results {
			c := p.newCaller(number)
			s := parse(t, r.output, 0)
			c.check(p, s, c.input())
			c.checkEnd(p, r, 1)
			residents[s.Resident]++
			if s.Resident == 0 {
				plainly++
				if r.took < answerTimeout {
					t.Errorf("caller %d was run plainly after %s", number, r.took)
				}
			}
		}
		delete(residents, 0)
		if len(residents) != 1 {
			t.Errorf("%d residents answered: %v", len(residents), residents)
		}
		if text, err := os.ReadFile(starts); p.kind.isGo() && string(text) != "start\n" {
			t.Errorf("residents started: %q, %v", text, err)
		}
		want := count - plainly
		if a := p.waitRuns(want); a.Runs != want || residents[a.PID] != want {
			t.Errorf("the resident says %+v, and %v had %d runs", a, residents, want)
		}
		p.expectFiles(t, ".lock .log .sock")
		t.Logf("%d launchers, %d run plainly", count, plainly)
	})
}

// atOnce runs so many callers at the same time.
func (p *place) atOnce(count int) []result {
	p.t.Helper()
	results := make([]result, count)
	var ready, group sync.WaitGroup
	start := make(chan struct{})
	for number := range count {
		command := p.newCaller(number).command(p, "report")
		ready.Add(1)
		group.Go(func() {
			ready.Done()
			<-start
			results[number] = finish(p.t, command)
		})
	}
	ready.Wait()
	close(start)
	group.Wait()
	return results
}
