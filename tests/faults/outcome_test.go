package faults_test

import (
	"cmp"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/status"
	"github.com/nearcall/nearcall/tests/processes"
	"github.com/nearcall/nearcall/tests/processes/ledger"
)

const (
	callTimeoutMs     = 100
	callersAtATime    = 4
	callsPerCaller    = 400
	defaultLedgerCall = 20000
	// One call of that many lasts, so that faults meet functions that have
	// started. Few enough of them leave the others hot.
	slowEvery    = 4
	slowEveryHot = 64
	// How long servers live: after some calls through shared memory, if it is
	// used, up to so many milliseconds.
	callsInMemory = 100
	memoryWait    = time.Second
	serverLifeMs  = 20
	// Callers that are killed early have memory all the same.
	memoryAfterCalls = "4"
	// The witness cannot see every delay of a machine that has more to run than
	// processors. A deadline that is missed shows in more calls, or in one that
	// takes for ever.
	latePerThousandMax = 1
	latenessMax        = 5 * time.Second
)

// TestOutcomesAreTrue calls while servers and callers are killed and servers
// are stopped at random, and then holds every outcome that was reported
// against a count of executions kept by a third process.
func TestOutcomesAreTrue(t *testing.T) {
	for name, caller := range map[string]string{"C": built.ledger, "Go": built.caller} {
		for _, memory := range []bool{true, false} {
			t.Run(name+" "+transportName(memory), func(t *testing.T) {
				r := newFaultRun(t, caller, memory)
				r.wanted = int64(processes.Setting(t, "NEARCALL_LEDGER_CALLS", defaultLedgerCall))
				r.torment()
				r.check()
			})
		}
	}
}

// TestOutcomesOfSeveralServers does the same to two servers behind one address. Calls move on
// from one to the other, and none is executed by both.
func TestOutcomesOfSeveralServers(t *testing.T) {
	for name, caller := range map[string]string{"C": built.ledger, "Go": built.caller} {
		for _, memory := range []bool{true, false} {
			t.Run(name+" "+transportName(memory), func(t *testing.T) {
				r := newFaultRun(t, caller, memory)
				r.further = r.path + "2"
				r.wanted = int64(processes.Setting(t, "NEARCALL_LEDGER_CALLS", defaultLedgerCall))
				if name == "C" {
					r.wanted /= 4 // enough to meet every fault many times
				}
				r.torment()
				r.check()
			})
		}
	}
}

func transportName(memory bool) string {
	if memory {
		return "shared memory"
	}
	return "socket"
}

// TestForwardedOutcomesAreTrue is TestOutcomesAreTrue with a server in between that passes the
// calls on, and that is killed as well.
func TestForwardedOutcomesAreTrue(t *testing.T) {
	for name, caller := range map[string]string{"C": built.ledger, "Go": built.caller} {
		t.Run(name, func(t *testing.T) {
			r := newFaultRun(t, caller, true)
			r.forwardPath = r.path + ".forwarder"
			r.wanted = int64(processes.Setting(t, "NEARCALL_LEDGER_CALLS", defaultLedgerCall) / 2)
			r.torment()
			r.check()
			if r.forwarderKills.Load() == 0 {
				t.Error("no forwarder was killed")
			}
		})
	}
}

// A faultRun is one torment of a server and its callers.
type faultRun struct {
	t         *testing.T
	caller    string
	memory    bool // whether callers use shared memory, or may not
	slowEvery int
	timeoutMs int    // of each call
	relay     *relay // nil if callers reach the server by themselves
	path      string
	further   string // the path of a second server, or "" for none
	// forwardPath is where a forwarder serves in front of the server, or "" if there is none.
	forwardPath string
	ledgerPath  string
	ledger      *ledger.Ledger
	reports     ledger.Reports
	witness     *processes.Witness

	wanted         int64 // calls, then torment ends
	serverKillsMax int   // or this many kills
	stopEvery      int   // one server of that many is stopped for a while
	killEvery      int   // one caller of that many is killed
	ended          atomic.Int64
	endedInMemory  atomic.Int64
	nextKey        atomic.Uint64
	serverKills    atomic.Int64
	callerKills    atomic.Int64
	forwarderKills atomic.Int64
	stops          atomic.Int64
	late           atomic.Int64

	randomMu sync.Mutex
	random   *rand.Rand
}

func newFaultRun(t *testing.T, caller string, memory bool) *faultRun {
	directory := t.TempDir()
	r := &faultRun{
		t: t, caller: caller, memory: memory, slowEvery: slowEvery, timeoutMs: callTimeoutMs, stopEvery: 3, killEvery: 3,
		path: filepath.Join(directory, "s"), ledgerPath: filepath.Join(directory, "ledger"),
		random: rand.New(rand.NewPCG(processes.Seed(t), 1)), witness: processes.NewWitness(),
	}
	if memory {
		r.slowEvery = slowEveryHot
	}
	r.ledger = ledger.Open(t, r.ledgerPath, nil)
	return r
}

func (r *faultRun) number(n int) int {
	r.randomMu.Lock()
	defer r.randomMu.Unlock()
	return r.random.IntN(n)
}

func (r *faultRun) address() string {
	if r.relay != nil {
		return r.relay.address()
	}
	parameters := ""
	if !r.memory {
		parameters = "?shm=off"
	}
	address := "unix:" + cmp.Or(r.forwardPath, r.path) + parameters
	if r.further != "" {
		address += " | unix:" + r.further + parameters
	}
	return address
}

func (r *faultRun) startServer(path string) *processes.Process {
	return processes.StartServer(r.t, nil, path, built.server, "-ledger", r.ledgerPath, "-shared-memory-after-calls", memoryAfterCalls)
}

func (r *faultRun) isEnough() bool {
	return r.wanted > 0 && r.ended.Load() >= r.wanted ||
		r.serverKillsMax > 0 && r.serverKills.Load() >= int64(r.serverKillsMax)
}

// torment keeps callers calling and does harm until it is enough.
func (r *faultRun) torment() {
	stopServers := make(chan struct{})
	var servers sync.WaitGroup
	for _, path := range []string{r.path, r.further} {
		if path != "" {
			servers.Go(func() { r.tormentServer(stopServers, path) })
		}
	}
	endForwarder := r.beginForwarder()
	var callers sync.WaitGroup
	for range callersAtATime {
		callers.Go(func() {
			for !r.isEnough() {
				r.runCaller()
			}
		})
	}
	callers.Wait()
	endForwarder()
	close(stopServers)
	servers.Wait()
}

// tormentServer kills and restarts one server after the other, and stops and
// continues some, now and then for longer than calls wait.
func (r *faultRun) tormentServer(stop <-chan struct{}, path string) {
	for {
		server := r.startServer(path)
		if r.number(r.stopEvery) == 0 {
			r.pause(stop, 10)
			server.Process.Signal(syscall.SIGSTOP)
			r.pause(stop, 2*callTimeoutMs)
			server.Continue()
			r.stops.Add(1)
		}
		r.awaitMemory()
		more := r.pause(stop, serverLifeMs)
		server.Kill()
		if !more {
			return
		}
		r.serverKills.Add(1)
	}
}

// beginForwarder torments forwarders, if there are any, until end is called. A forwarder that
// starts needs a server that comes back.
func (r *faultRun) beginForwarder() (end func()) {
	if r.forwardPath == "" {
		return func() {}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		r.tormentForwarder(stop)
	}()
	return func() {
		close(stop)
		<-stopped
	}
}

// tormentForwarder kills one forwarder after the other, with the servers in any state.
func (r *faultRun) tormentForwarder(stop <-chan struct{}) {
	for {
		p := processes.StartServer(r.t, nil, r.forwardPath, built.forwarder, "-to", "unix:"+r.path, "-shared-memory-after-calls", memoryAfterCalls)
		r.awaitMemory()
		more := r.pause(stop, 2*serverLifeMs)
		p.Kill()
		if !more {
			return
		}
		r.forwarderKills.Add(1)
	}
}

// awaitMemory waits until some calls have gone through shared memory, on a busy
// machine longer than on an idle one: a server that nobody reaches is no test.
func (r *faultRun) awaitMemory() {
	if !r.memory {
		return
	}
	wanted := r.endedInMemory.Load() + int64(r.number(callsInMemory))
	for until := time.Now().Add(memoryWait); r.endedInMemory.Load() < wanted && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
}

// pause waits up to most milliseconds; it reports false when stop was closed.
func (r *faultRun) pause(stop <-chan struct{}, most int) bool {
	select {
	case <-stop:
		return false
	case <-time.After(time.Duration(r.number(most*1000)) * time.Microsecond):
		return true
	}
}

// runCaller runs one caller, which may be killed in the middle of a call.
func (r *faultRun) runCaller() {
	p := r.startCaller(callsPerCaller)
	if r.number(r.killEvery) == 0 {
		delay := time.Duration(r.number(40_000)) * time.Microsecond
		killer := time.AfterFunc(delay, func() { p.Process.Kill() })
		r.callerKills.Add(1)
		defer killer.Stop()
	}
	r.readRecords(p)
	p.Wait()
}

// startCaller starts a caller with as many keys of its own.
func (r *faultRun) startCaller(keys int, further ...string) *processes.Process {
	first := r.nextKey.Add(uint64(keys)) - uint64(keys)
	return processes.Start(r.t, nil, append([]string{r.caller, r.address(), strconv.FormatUint(first, 10),
		strconv.Itoa(callsPerCaller), strconv.Itoa(r.timeoutMs), strconv.Itoa(r.slowEvery)}, further...)...)
}

// readRecords notes what a caller says, to its end.
func (r *faultRun) readRecords(p *processes.Process) {
	err := ledger.Read(p.Output, func(key uint64, said ledger.Report, took time.Duration) {
		r.reports.Note(key, said)
		if said.Ended {
			r.ended.Add(1)
			if said.Memory {
				r.endedInMemory.Add(1)
			}
			r.noteTime(key, said, took)
		}
	})
	if err != nil {
		r.t.Error(err)
	}
}

func (r *faultRun) noteTime(key uint64, said ledger.Report, took time.Duration) {
	bound := time.Duration(r.timeoutMs+50) * time.Millisecond
	if took > bound && !r.witness.Explains(took-bound) {
		r.late.Add(1)
		if took > bound+latenessMax {
			r.t.Errorf("call %d took %s: nothing but a deadline that was missed explains that", key, took)
		}
		r.t.Logf("late: call %d took %s: %v, %v", key, took, said.Code, said.Outcome)
	}
}

// tally is what check counts.
type tally struct {
	calls, wrong         int
	memory               int // calls that began with shared memory
	lost, unknown, blind int // of those, of quick functions: the server was lost; unknown; and unknown, though never executed
	byOutcome            map[string]int
}

// check holds every report against the ledger, and returns what it has counted.
func (r *faultRun) check() *tally {
	r.witness.Close()
	r.ledger.Close()
	count := tally{byOutcome: make(map[string]int)}
	for key, reported := range r.reports.ByKey {
		r.checkOne(uint64(key), reported, &count)
	}
	for key, executed := range r.ledger.Executed {
		if executed > 0 && key >= len(r.reports.ByKey) {
			r.t.Errorf("key %d was executed %d times and never called", key, executed)
		}
	}
	if len(r.ledger.Strange) > 0 {
		r.t.Errorf("keys were executed that nobody has: %d", r.ledger.Strange)
	}
	r.t.Logf("%d calls, %d of them with shared memory; %d servers and %d callers killed, %d servers stopped; "+
		"%d wrong outcomes, %d calls later than their deadline + 50 ms and what the machine adds; %v",
		count.calls, count.memory, r.serverKills.Load(), r.callerKills.Load(), r.stops.Load(), count.wrong, r.late.Load(), count.byOutcome)
	if r.memory {
		r.t.Logf("with shared memory %d calls of quick functions lost their server, the outcome of %d is unknown, %d of these were never executed",
			count.lost, count.unknown, count.blind)
	}
	if r.forwardPath != "" {
		r.t.Logf("%d forwarders killed", r.forwarderKills.Load())
	}
	r.judge(&count)
	return &count
}

func (r *faultRun) checkOne(key uint64, reported ledger.Report, count *tally) {
	executed := r.ledger.Count(key)
	if !reported.Possible(executed) {
		count.wrong++
		r.t.Errorf("call %d: %s, and the ledger has %d executions", key, reported.Describe(), executed)
	}
	if !reported.Begun {
		return
	}
	count.calls++
	count.byOutcome[reported.Describe()]++
	if !reported.Memory {
		return
	}
	count.memory++
	if !reported.Ended || reported.Code != status.Unavailable || key%uint64(r.slowEvery) == 0 {
		return
	}
	count.lost++
	if reported.Outcome == status.OutcomeUnknown {
		count.unknown++
		if executed == 0 {
			count.blind++
		}
	}
}

func (r *faultRun) judge(count *tally) {
	faults := r.serverKills.Load() + r.callerKills.Load()
	if r.relay != nil {
		faults += r.relay.cuts.Load()
		r.t.Logf("%d connections were cut", r.relay.cuts.Load())
	}
	if faults == 0 || count.byOutcome["OK"] == 0 {
		r.t.Error("nothing was tested: no faults, or no calls that succeeded")
	}
	if late := r.late.Load(); late*1000 > int64(count.calls)*latePerThousandMax {
		r.t.Errorf("%d of %d calls came back later than their deadline + 50 ms and what the machine adds", late, count.calls)
	}
	// Callers find a forwarder that is there less often.
	if r.memory && (count.memory == 0 || r.forwardPath == "" && count.memory < count.calls/10) {
		r.t.Errorf("%d of %d calls used shared memory: that tests the socket", count.memory, count.calls)
	}
	r.judgeMarks(count)
	if !r.memory && count.memory > 0 {
		r.t.Errorf("%d calls used shared memory, which was off", count.memory)
	}
}

// judgeMarks holds what the marks should tell to what was unknown. Marks of a forwarder cannot
// tell what became of calls in the server behind it, and of several servers a call may have used
// one that had given no memory yet.
func (r *faultRun) judgeMarks(count *tally) {
	if r.forwardPath != "" || r.further != "" || count.lost <= 100 {
		return
	}
	if count.unknown*100 > count.lost*unknownPercentMax {
		r.t.Errorf("%d of %d outcomes are unknown: the marks should tell", count.unknown, count.lost)
	}
	if count.blind*100 > count.lost*blindPercentMax {
		r.t.Errorf("%d of %d outcomes are unknown though the call never ran", count.blind, count.lost)
	}
}
