package resident_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
	// restingRuns are more than can have been taken by processes that waited or ran at the
	// last kill, so that another has waited since. A pool of which two processes in a row
	// end before they wait gives up, as that of a broken program.
	restingRuns = callers + 3
)

// A victim is whom a test kills.
type victim struct {
	name string
	kind func(k kind) bool
	// choose returns a process of the resident that has answered.
	choose func(p *place, a answer, random *rand.Rand) int
	// lost is how many runs may be lost with the process.
	lost int
	// plainly is how many kills a run has to meet to be run plainly. A launcher asks twice. A
	// process that has connections and listens itself may end while a launcher asks it again.
	plainly int64
}

func victims() []victim {
	return []victim{
		// Runs of a pool live on, and say themselves how they ended.
		{"supervisor", own, supervisor, 0, 2},
		{"any", own, anyProcess, 1, 2},
		{"serial", func(k kind) bool { return shared(k) && supervised(k) }, supervisor, 1, 1},
		{"concurrent", concurrent, supervisor, callers, 1},
	}
}

func supervisor(_ *place, a answer, _ *rand.Rand) int { return a.PID }

func anyProcess(p *place, a answer, random *rand.Rand) int {
	found := p.processes()
	if len(found) == 0 {
		return a.PID // it has ended since it answered
	}
	return found[random.IntN(len(found))]
}

// Every run gives the right output and code once, whoever is killed: by a resident, by the
// next one, or plainly when those were killed that it had asked. One whose own process
// was killed may be lost, and its caller is told so; it is not run twice. Planted bugs that it
// finds: a launcher that runs again what has begun, and a process that says so too late.
func TestResidentsAreKilled(t *testing.T) {
	for _, v := range victims() {
		t.Run(v.name, func(t *testing.T) {
			eachKind(t, v.kind, func(t *testing.T, p *place) { testKills(t, p, v) })
		})
	}
}

// A killedRun is a run, with how many kills it can have met.
type killedRun struct {
	result
	kills int64
}

// Kills are counted when they are begun, and when nobody can meet them any more.
type killCounts struct{ begun, over atomic.Int64 }

func testKills(t *testing.T, p *place, v victim) {
	seed := processes.Seed(t)
	// A resident that is slow to start is no reason to run plainly, nor is it one for
	// the test to fail: however busy the machine is, a kill is the only one.
	p.env = append(p.env, "NEARCALL_RUN_ANSWER_MS=60000", "NEARCALL_RUN_DEBUG=1")
	runs := make([]killedRun, processes.Setting(t, "NEARCALL_RUNS", runsCI))
	var next, ended atomic.Int64
	var kills killCounts
	var group sync.WaitGroup
	due, finished := make(chan struct{}, len(runs)), make(chan struct{})
	for worker := range callers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(worker)))
			for number := int(next.Add(1)) - 1; number < len(runs); number = int(next.Add(1)) - 1 {
				before := kills.over.Load()
				runs[number].result = p.run("ledger", p.path("ledger"), strconv.Itoa(number), strconv.Itoa(number%100))
				runs[number].kills = kills.begun.Load() - before
				if ended.Add(1)%killEach == 0 {
					due <- struct{}{}
				}
				time.Sleep(time.Duration(random.Int64N(int64(pauseMax))))
			}
		})
	}
	go func() { group.Wait(); close(due); close(finished) }()
	random := rand.New(rand.NewPCG(seed, callers))
	var last answer
	for range due {
		if a, found := p.awaitStarted(last, finished); found {
			p.kill(a, v.choose(p, a, random), &kills)
			last = a
		}
	}
	p.judge(v, runs, int(kills.begun.Load()))
}

// awaitStarted waits for a resident whose start has come to something: one that is killed
// before has not, as that of a program that crashes has not. It returns false when no run is left
// that could start one.
func (p *place) awaitStarted(last answer, finished <-chan struct{}) (a answer, found bool) {
	p.t.Helper()
	processes.WaitFor(p.t, "a resident that has started", settleTimeout, func() bool {
		select {
		case <-finished:
			return true
		default:
		}
		for _, path := range p.sockets() {
			var err error
			a, err = ask(path, kindStatus)
			starts, errLock := os.ReadFile(strings.TrimSuffix(path, ".sock") + ".lock")
			rested := a.PID != last.PID || a.Runs >= last.Runs+restingRuns
			found = err == nil && errLock == nil && len(starts) == 0 && rested
		}
		return found
	})
	return a, found
}

// kill kills a process of the resident that has answered, and returns when nobody can meet
// what that leaves: those that wait let go of their supervisor's socket when it has ended.
func (p *place) kill(a answer, pid int, kills *killCounts) {
	p.t.Helper()
	listening := p.listeners()
	await := processes.EndOf(p.t, pid)
	kills.begun.Add(1)
	_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	await(settleTimeout)
	if pid == a.PID {
		processes.WaitFor(p.t, "the end of the killed resident's socket", settleTimeout, func() bool {
			for inode := range p.listeners() {
				if listening[inode] {
					return false
				}
			}
			return true
		})
	}
	kills.over.Add(1)
}

// listeners are the inodes of the sockets that listen at the place, also of those that another has
// taken the path from.
func (p *place) listeners() map[string]bool {
	p.t.Helper()
	const accepts, flagsAt, inodeAt, pathAt = "00010000", 3, 6, 7
	text, err := os.ReadFile("/proc/net/unix")
	must(p.t, err)
	found := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > pathAt && fields[flagsAt] == accepts && filepath.Dir(fields[pathAt]) == p.residents() {
			found[fields[inodeAt]] = true
		}
	}
	return found
}

// judge compares what callers saw with what the ledger says.
func (p *place) judge(v victim, runs []killedRun, kills int) {
	p.t.Helper()
	executed, plainly := p.readLedger(len(runs))
	lost, plain := 0, 0
	for number, r := range runs {
		right := r.code == number%100 && r.signal == 0 && r.output == fmt.Sprintln(number) && executed[number] == 1
		told := (r.code == codeKilled || r.signal == syscall.SIGKILL) && executed[number] <= 1
		if !right && told && v.lost > 0 {
			lost++
		} else if !right {
			p.t.Errorf("run %d was executed %d times: %s", number, executed[number], r)
		}
		if plainly[number] {
			plain++
			if r.kills < v.plainly {
				p.t.Errorf("run %d was run plainly, and can have met %d kills: %s", number, r.kills, r)
			}
		}
	}
	p.t.Logf("%d runs, %d kills, %d lost and told so, %d run plainly", len(runs), kills, lost, plain)
	if kills < len(runs)/killEach/4 {
		p.t.Errorf("only %d kills in %d runs", kills, len(runs))
	}
	if lost > kills*v.lost {
		p.t.Errorf("%d kills are too few for %d lost runs", kills, lost)
	}
}

// readLedger counts how often each run was executed, and says which were plainly.
func (p *place) readLedger(runs int) (executed []int, plainly []bool) {
	p.t.Helper()
	file, err := os.Open(p.path("ledger"))
	must(p.t, err)
	defer func() { _ = file.Close() }()
	executed, plainly = make([]int, runs), make([]bool, runs)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var number int
		var resident bool
		if _, err := fmt.Sscan(lines.Text(), &number, &resident); err != nil {
			p.t.Fatalf("the ledger says %q: %v", lines.Text(), err)
		}
		executed[number]++
		plainly[number] = plainly[number] || !resident
	}
	return executed, plainly
}
