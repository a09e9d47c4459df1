package machines_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
	"github.com/nearcall/nearcall/tests/machines/network"
	"github.com/nearcall/nearcall/tests/processes"
	"github.com/nearcall/nearcall/tests/processes/ledger"
)

const (
	defaultCalls   = 20_000
	defaultFaults  = 12
	defaultPauseUs = 20_000
	callsPerCaller = 1_000
	timeoutMs      = 5_000
	slowEvery      = 4
	// One caller of that many is killed, within so many milliseconds.
	killEvery, killWithinMs = 3, 4_000
	// For how long a host may be silent before its callers leave it: what an address with several
	// endpoints begins with. In the same time after that they may ask it what became of calls.
	silence = time.Second
	// What is left between a fault and the end of the last call that it can explain: silence, then
	// asking, then a pause of the kernel before it sends again what was lost.
	aftermath = 3 * silence
	// Calls move within the silence, and then begin to succeed at once.
	movedAfter, atOnce = silence + 200*time.Millisecond, 500 * time.Millisecond
	// A call that was with a host that was cut off has its outcome within that: it is lost after the
	// silence, and then asked about for as long.
	told = 2*silence + atOnce
	// Between gateways it may be their engines that notice, which ask twice, a second each.
	toldByGateways = told + silence
	// A host that is whole again is called by others within that.
	backWithin = 5 * time.Second
	// A process that has had no connection to a host since before the fault finds out by one for
	// which calls wait so long, each of those that it makes at a time once.
	connecting, callsAtATime = wire.EndpointConnectMs * time.Millisecond, 4
	// What a deadline may be late.
	grace = 50 * time.Millisecond
)

// TestOutcomesAreTrueOnSeveralMachines calls between three hosts, over lists of tls: addresses,
// while links are cut or silenced, and servers and callers killed, stopped and replaced, each with
// another monotonic clock. Every outcome is then held against the ledgers of the hosts.
func TestOutcomesAreTrueOnSeveralMachines(t *testing.T) {
	t.Parallel()
	r := newRun(t, false)
	for _, m := range r.machines {
		r.startServer(m)
	}
	r.torment()
	r.check()
}

// TestOutcomesAreTrueThroughGateways is the same for callers that know only the socket of a gateway
// on their host. One host has no server of its own, so all of its calls go to the others. The gateways
// of the others direct callers in Go to the servers of their own hosts. Gateways are killed as well.
func TestOutcomesAreTrueThroughGateways(t *testing.T) {
	t.Parallel()
	r := newRun(t, true)
	for _, m := range r.machines[1:] {
		r.startServer(m)
	}
	for _, m := range r.machines {
		r.startGateway(m)
	}
	for _, m := range r.machines {
		r.awaitFunction(m)
	}
	r.checkDirect(r.machines[1])
	// There are fewer callers, and so fewer calls in the same time.
	r.wanted /= 2
	r.torment()
	r.check()
}

// A run is one torment of machines.
type run struct {
	t        *testing.T
	gateways bool // callers call gateways, instead of lists of hosts
	network  *network.Network
	machines []*machine
	witness  *processes.Witness
	pauseUs  int
	wanted   int64
	begun    time.Time
	ended    atomic.Int64 // calls
	faults   []*fault
	kills    atomic.Int64 // of callers
	lateness atomic.Int64 // the worst that the witness has told

	mu      sync.Mutex
	random  *rand.Rand
	callers []*caller
	calls   []call // by key
}

// A call is what is known of one.
type call struct {
	ledger.Report
	from, to time.Duration // since the run began; from is certain when it has ended
}

func newRun(t *testing.T, gateways bool) *run {
	r := &run{
		t: t, gateways: gateways, network: newTestNetwork(t), witness: processes.NewWitness(), begun: time.Now(),
		wanted:  int64(processes.Setting(t, "NEARCALL_LEDGER_CALLS", defaultCalls)),
		pauseUs: processes.Setting(t, "NEARCALL_PAUSE_US", defaultPauseUs),
		random:  rand.New(rand.NewPCG(processes.Seed(t), 1)),
	}
	for _, name := range []string{"a", "b", "c"} {
		r.addMachine(name)
	}
	return r
}

func (r *run) now() time.Duration { return time.Since(r.begun) }

func (r *run) number(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.IntN(n)
}

// newCaller gives a process keys of its own.
func (r *run) newCaller(on *machine) *caller {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &caller{on: on, found: make(map[*fault]int), first: uint64(len(r.callers)) * callsPerCaller}
	r.callers = append(r.callers, c)
	r.calls = append(r.calls, make([]call, callsPerCaller)...)
	return c
}

// callerOf returns the caller that has been given a key, or nil if nobody has.
func (r *run) callerOf(key uint64) *caller {
	r.mu.Lock()
	defer r.mu.Unlock()
	if key >= uint64(len(r.calls)) {
		return nil
	}
	return r.callers[key/callsPerCaller]
}

// torment keeps callers on each machine, and does harm until it is enough.
func (r *run) torment() {
	r.callAndHarm()
	for _, m := range r.machines {
		for _, p := range []*processes.Process{m.gateway, m.server} {
			if p != nil {
				p.Kill()
			}
		}
		m.ledger.Close()
	}
	r.witness.Close()
}

func (r *run) callAndHarm() {
	stop := make(chan struct{})
	var callers sync.WaitGroup
	defer callers.Wait()
	defer close(stop)
	for _, m := range r.machines {
		for _, kind := range r.kinds(m) {
			callers.Go(func() { r.keepCalling(m, kind, stop) })
		}
	}
	faults := len(r.faults) + processes.Setting(r.t, "NEARCALL_MACHINE_FAULTS", defaultFaults)
	for r.ended.Load() < r.wanted || len(r.faults) < faults {
		r.harm()
	}
}

// keepCalling starts one caller after the other.
func (r *run) keepCalling(m *machine, kind callerKind, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
			r.runCaller(m, kind, stop)
		}
	}
}

// runCaller runs one caller, which may be killed in the middle of a call, and is when all ends.
func (r *run) runCaller(m *machine, kind callerKind, stop <-chan struct{}) {
	c := r.newCaller(m)
	if kind.address == "" {
		c.to = r.machines[r.number(len(r.machines))]
		kind.address = addressOf(c.to)
	}
	c.kind = kind
	p := r.startCaller(kind, c)
	ended := make(chan struct{})
	go r.killCaller(p, ended, stop)
	if err := ledger.Read(p.Output, r.note); err != nil {
		r.t.Error(err)
	}
	close(ended)
	p.Wait()
}

// killCaller kills one caller of some, and those that are there when all ends.
func (r *run) killCaller(p *processes.Process, ended, stop <-chan struct{}) {
	var drawn <-chan time.Time
	if r.number(killEvery) == 0 {
		drawn = time.After(time.Duration(r.number(killWithinMs)) * time.Millisecond)
	}
	select {
	case <-ended:
		return
	case <-drawn:
	case <-stop:
	}
	p.Process.Kill()
	r.kills.Add(1)
}

func (r *run) note(key uint64, said ledger.Report, took time.Duration) {
	now := r.now()
	late := r.witness.Lateness()
	r.mu.Lock()
	defer r.mu.Unlock()
	if key >= uint64(len(r.calls)) {
		r.t.Errorf("a caller has called with key %d, which it was not given", key)
		return
	}
	r.lateness.Store(max(r.lateness.Load(), int64(late)))
	r.calls[key] = call{Report: said, from: now - took, to: now}
	if c := r.callers[key/callsPerCaller]; c.begun == 0 {
		c.begun = now
	}
	if !said.Ended {
		return
	}
	r.ended.Add(1)
	if bound := timeoutMs*time.Millisecond + grace; took > bound && !r.witness.Explains(took-bound) {
		r.t.Errorf("call %d took %s, its deadline was after %d ms: %s", key, took, timeoutMs, said.Describe())
	}
}

// slack is what this machine may have added to a time.
func (r *run) slack() time.Duration { return 2 * time.Duration(r.lateness.Load()) }

// check holds every call against the ledgers and the faults.
func (r *run) check() {
	count := &tally{byOutcome: make(map[string]int)}
	for key := range r.calls {
		r.checkOutcome(uint64(key), count)
		r.checkFault(uint64(key), count)
	}
	for _, m := range r.machines {
		if len(m.ledger.Strange) > 0 {
			r.t.Errorf("host %s has executed calls that nobody made: %d", m.Name, m.ledger.Strange)
		}
	}
	count.tell(r)
	if count.byOutcome["OK"] == 0 || count.moved == 0 {
		r.t.Error("nothing was tested: no calls that succeeded, or none that had moved")
	}
}

// tally is what check counts.
type tally struct {
	calls, wrong, moved int
	byOutcome           map[string]int
}

func (c *tally) tell(r *run) {
	kinds := make(map[string]int)
	for _, f := range r.faults {
		kinds[f.kind]++
	}
	r.t.Logf("%d calls in %s; faults of hosts: %v; %d callers killed; %d wrong outcomes; %d calls while another host was away had moved; the machine was late by %s at most; %v",
		c.calls, r.now().Round(time.Second), kinds, r.kills.Load(), c.wrong, c.moved, time.Duration(r.lateness.Load()), c.byOutcome)
}

// executions returns how often a call was executed, and where.
func (r *run) executions(key uint64) (count int, where *machine) {
	for _, m := range r.machines {
		if n := m.ledger.Count(key); n > 0 {
			count, where = count+n, m
		}
	}
	return count, where
}

func (r *run) checkOutcome(key uint64, count *tally) {
	said := r.calls[key]
	executed, _ := r.executions(key)
	if !said.Possible(executed) {
		count.wrong++
		r.t.Errorf("call %d: %s, and the ledgers have %d executions", key, said.Describe(), executed)
	}
	if said.Begun {
		count.calls++
		count.byOutcome[said.Describe()]++
	}
}

// checkFault holds a call that failed, or was slow, against what was done to the hosts.
func (r *run) checkFault(key uint64, count *tally) {
	said, c := r.calls[key], r.callerOf(key)
	if !said.Ended {
		return
	}
	_, where := r.executions(key)
	failed := said.Code != status.OK
	if failed && !r.explains(said, c, where) {
		r.t.Errorf("call %d of host %s from %s to %s: %s, executed by %s, and no fault explains that", key, c.on.Name, said.from, said.to, said.Describe(), nameOf(where))
	}
	if c.to == nil {
		r.checkTimes(said, c, count)
	}
}

// checkTimes holds how long a call took, of a caller that can call several hosts, against faults
// of other hosts than its own.
func (r *run) checkTimes(said call, c *caller, count *tally) {
	took, own := said.to-said.from, false
	for _, f := range r.faults {
		own = own || f.on == c.on && said.from <= f.to+aftermath && said.to >= f.from
		// A process that begins meanwhile knows as little as the others did.
		if !f.away || f.on == c.on || said.from < max(f.from, c.begun)+movedAfter+r.slack() || said.to > f.to {
			continue
		}
		count.moved++
		if said.Code == status.OK && took > atOnce+r.slack() && took < connecting+atOnce+r.slack() && c.found[f] < callsAtATime {
			c.found[f]++
			continue
		}
		if said.Code != status.OK || took > atOnce+r.slack() {
			r.t.Errorf("a call of host %s, %s after host %s was away (%s), took %s: %s; its caller, which began at %s, is %s", c.on.Name, said.from-f.from, f.on.Name, f.kind, took, said.Describe(), c.begun-f.from, c.kind)
		}
	}
	bound := told
	if r.gateways {
		bound = toldByGateways
	}
	if took > bound+r.slack() && !own {
		r.t.Errorf("a call of host %s, from %s to %s, took %s although other hosts were there: %s; its caller is %s", c.on.Name, said.from, said.to, took, said.Describe(), c.kind)
	}
}

func nameOf(m *machine) string {
	if m == nil {
		return "no host"
	}
	return "host " + m.Name
}

// explains reports whether a fault explains that a call failed: one of its caller's host, or of
// the host that it was with. A call that was not executed can have been with any host; if its
// caller can call several, it must not fail because of one.
func (r *run) explains(said call, c *caller, where *machine) bool {
	for _, f := range r.faults {
		if said.to < f.from || said.from > f.to+aftermath+r.slack() {
			continue
		}
		switch {
		case !f.loses:
			// A caller that can call no other server finds none while this one is replaced.
			if c.to == f.on && said.Outcome == status.OutcomeNotExecuted {
				return true
			}
		case f.on == c.on:
			return true
		case said.Outcome == status.OutcomeNotExecuted && c.to == nil:
			continue
		case where == nil && (c.to == nil || c.to == f.on), where == f.on:
			return true
		}
	}
	return false
}
