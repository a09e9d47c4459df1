package resident_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/tests/processes"
)

const (
	runsCI     = 200
	callers    = 6
	killEach   = 20 // runs
	codeKilled = 125
	pauseMax   = 3 * time.Millisecond
)

// A victim is whom a test kills.
type victim struct {
	name string
	kind func(k kind) bool
	// choose returns a process of the resident's, 0: none.
	choose func(p *place, random *rand.Rand) int
	// lost is how many runs may be lost with the process.
	lost int
	// plainly is how many may be run plainly for a kill: two of them have to meet a
	// launcher that finds nobody, or one of a process that all share.
	plainly float64
}

func victims() []victim {
	return []victim{
		// Runs of a pool live on, and say themselves how they ended.
		{"supervisor", own, supervisor, 0, 0.5},
		{"any", own, anyProcess, 1, 0.5},
		{"serial", func(k kind) bool { return shared(k) && supervised(k) }, supervisor, 1, 1},
		{"concurrent", concurrent, supervisor, callers, 2},
	}
}

func supervisor(p *place, _ *rand.Rand) int {
	for _, path := range p.sockets() {
		if a, err := ask(path, kindStatus); err == nil {
			return a.PID
		}
	}
	return 0
}

func anyProcess(p *place, random *rand.Rand) int {
	// One that answers has started: those that do not would be a crash loop.
	if supervisor(p, random) == 0 {
		return 0
	}
	found := p.processes()
	if len(found) == 0 {
		return 0
	}
	return found[random.IntN(len(found))]
}

// Every run gives the right output and code once, whoever is killed: by a resident, by the
// next one, or plainly. One whose own process was killed may be lost, and its caller is
// told so; it is not run twice.
func TestResidentsAreKilled(t *testing.T) {
	for _, v := range victims() {
		t.Run(v.name, func(t *testing.T) {
			eachKind(t, v.kind, func(t *testing.T, p *place) { testKills(t, p, v) })
		})
	}
}

func testKills(t *testing.T, p *place, v victim) {
	runs := processes.Setting(t, "NEARCALL_RUNS", runsCI)
	seed := processes.Seed(t)
	results := make([]result, runs)
	var next, ended, kills atomic.Int64
	var group sync.WaitGroup
	due := make(chan struct{}, runs)
	for worker := range callers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(worker)))
			for number := int(next.Add(1)) - 1; number < runs; number = int(next.Add(1)) - 1 {
				results[number] = p.run("ledger", p.path("ledger"), strconv.Itoa(number), strconv.Itoa(number%100))
				if ended.Add(1)%killEach == 0 {
					due <- struct{}{}
				}
				time.Sleep(time.Duration(random.Int64N(int64(pauseMax))))
			}
		})
	}
	go func() { group.Wait(); close(due) }()
	random := rand.New(rand.NewPCG(seed, callers))
	for range due {
		if pid := v.choose(p, random); pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
			kills.Add(1)
		}
	}
	p.judge(v, results, int(kills.Load()))
}

// judge compares what callers saw with what the ledger says.
func (p *place) judge(v victim, results []result, kills int) {
	p.t.Helper()
	executed, plainly := p.readLedger(len(results))
	lost := 0
	for number, r := range results {
		right := r.code == number%100 && r.signal == 0 && r.output == fmt.Sprintln(number) && executed[number] == 1
		told := (r.code == codeKilled || r.signal == syscall.SIGKILL) && executed[number] <= 1
		if !right && told && v.lost > 0 {
			lost++
		} else if !right {
			p.t.Errorf("run %d was executed %d times: %s", number, executed[number], r)
		}
	}
	p.t.Logf("%d runs, %d kills, %d lost and told so, %d run plainly", len(results), kills, lost, plainly)
	if kills < len(results)/killEach/4 {
		p.t.Errorf("only %d kills in %d runs", kills, len(results))
	}
	if lost > kills*v.lost || float64(plainly) > float64(kills)*v.plainly {
		p.t.Errorf("%d kills are too few for %d lost runs and %d plain ones", kills, lost, plainly)
	}
}

// readLedger counts how often each run was executed, and how many were plainly.
func (p *place) readLedger(runs int) (executed []int, plainly int) {
	p.t.Helper()
	file, err := os.Open(p.path("ledger"))
	must(p.t, err)
	defer func() { _ = file.Close() }()
	executed = make([]int, runs)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var number int
		var resident bool
		if _, err := fmt.Sscan(lines.Text(), &number, &resident); err != nil {
			p.t.Fatalf("the ledger says %q: %v", lines.Text(), err)
		}
		executed[number]++
		if !resident {
			plainly++
		}
	}
	return executed, plainly
}
