package governor_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory/governor"
)

// A tracer is a governor that can write down what it is told, and what it decides.
// Each line is what happened, its numbers, and after "=" whether it spins from then
// on, with 2 added if it yields, why it spins or not, for how long at most, and when it wants to look.
type tracer struct {
	*governor.Governor
	out       *bytes.Buffer // nil: nothing is written
	linesLeft int
	hits      int
}

func traced(begins bool, sleepNs uint64) *tracer {
	if begins {
		return &tracer{Governor: governor.NewCaller(sleepNs)}
	}
	return &tracer{Governor: governor.NewServer(sleepNs)}
}

// begin writes from now on. Preconditions: the governor was told nothing yet.
func (t *tracer) begin(out *bytes.Buffer, lines int, begins bool, sleepNs uint64) {
	t.out, t.linesLeft = out, lines
	t.line("new", bit(begins), sleepNs)
}

func (t *tracer) line(what string, numbers ...any) {
	if t.linesLeft == 0 {
		return
	}
	if t.hits > 0 {
		fmt.Fprintf(t.out, "hits %d\n", t.hits)
		t.hits = 0
	}
	t.linesLeft--
	fmt.Fprint(t.out, what)
	for _, n := range numbers {
		fmt.Fprint(t.out, " ", n)
	}
	fmt.Fprintf(t.out, " = %d %d %d %d\n", bit(t.Spins())+2*bit(t.Yields()), t.Reason(), t.LimitNs(), t.dueNs())
}

// dueNs finds out when Look is wanted by asking.
func (t *tracer) dueNs() uint64 {
	low, high := uint64(0), governor.Never
	for low < high {
		if middle := low + (high-low)/2; t.Due(middle) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

func (t *tracer) Look(nowNs uint64, f *governor.Facts) {
	t.Governor.Look(nowNs, f)
	t.line("look", nowNs, f.Processors, f.CPU, f.PeerCPU, f.PeerAwake, f.Machine, f.Runnable, f.Thread, f.WaitedNs)
}

func (t *tracer) Hit() {
	t.Governor.Hit()
	if t.out != nil {
		t.hits++
	}
}

func (t *tracer) HitLate(spunNs, nowNs uint64) {
	t.Governor.HitLate(spunNs, nowNs)
	t.line("late", spunNs, nowNs)
}

func (t *tracer) Missed(spunNs, nowNs uint64) {
	t.Governor.Missed(spunNs, nowNs)
	t.line("missed", spunNs, nowNs)
}

func (t *tracer) Slept(costNs uint64) {
	t.Governor.Slept(costNs)
	t.line("slept", costNs)
}

func (t *tracer) Paused(pauseNs uint64) {
	t.Governor.Paused(pauseNs)
	t.line("paused", pauseNs)
}

func (t *tracer) Together(nowNs uint64) (moves bool) {
	moves = t.Governor.Together(nowNs)
	t.line("together", nowNs, bit(moves))
	return moves
}

func (t *tracer) TookTurn(nowNs uint64) (moves bool) {
	moves = t.Governor.TookTurn(nowNs)
	t.line("turn", nowNs, bit(moves))
	return moves
}

const (
	tracesPath = "testdata/traces.txt"
	traceLines = 100
)

var update = flag.Bool("update", false, "write "+tracesPath+" anew")

// TestTraces: what the simulation tells governors, and they decide, is what the file
// says, to which libnearcall's is held as well.
func TestTraces(t *testing.T) {
	var out bytes.Buffer
	for _, name := range []string{"steal 15%, stacked", "steal 15%, slow wakes", "neighbour, stacked", "bursts", "16 callers", "paced 100 us", "function 100 us", "one CPU each, steal 15%"} {
		for i := range scenarios {
			if scenarios[i].name == name {
				trace(&out, &scenarios[i])
			}
		}
	}
	if *update {
		if err := os.WriteFile(tracesPath, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(tracesPath)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("%s differs from what the simulation does; look at it, then write it by -update", tracesPath)
	}
}

// trace writes down the first pair of a scenario.
func trace(out *bytes.Buffer, sc *scenario) {
	var caller, server bytes.Buffer
	w, pairs, _ := populate(sc, auto, seed)
	p := pairs[0]
	p.caller.g.begin(&caller, traceLines, true, w.costs.sleepNs())
	p.server.g.begin(&server, traceLines, false, w.costs.sleepNs())
	w.run(400 * ms)
	fmt.Fprintf(out, "# %s: caller\n%s# %s: server\n%s", sc.name, &caller, sc.name, &server)
}
