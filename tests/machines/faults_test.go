package machines_test

import (
	"sync"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/tests/processes"
	"github.com/nearcall/nearcall/tests/processes/ledger"
)

// How long a fault lasts, at most: now and then shorter than it takes to notice it.
const faultMs = 3_000

// A fault is what was done to a machine, and when.
type fault struct {
	on       *machine
	kind     string
	from, to time.Duration // since the run began
	away     bool          // nobody else could reach the machine's server
	loses    bool          // calls may be lost by it
}

// harm does something to a machine, waits, and makes the machine whole again. It returns when
// others call it as before.
func (r *run) harm() {
	r.t.Helper()
	f := &fault{on: r.machines[r.number(len(r.machines))], loses: true}
	kinds := []func(*fault, time.Duration){r.cut, r.silence}
	if f.on.server != nil {
		kinds = append(kinds, r.kill, r.stop, r.replace)
	}
	if f.on.gateway != nil {
		kinds = append(kinds, r.killGateway)
	}
	r.faults = append(r.faults, f)
	f.from = r.now()
	kinds[r.number(len(kinds))](f, time.Duration(r.number(faultMs))*time.Millisecond)
	r.awaitCalls(f.on)
}

func (r *run) cut(f *fault, last time.Duration) {
	r.t.Helper()
	f.kind, f.away = "link down", true
	r.must(f.on.Cut())
	r.wait(last)
	f.to = r.now()
	r.must(f.on.Heal())
}

func (r *run) silence(f *fault, last time.Duration) {
	r.t.Helper()
	f.kind, f.away = "silence", true
	r.must(f.on.Silence())
	r.wait(last)
	f.to = r.now()
	r.must(f.on.Heal())
}

func (r *run) kill(f *fault, last time.Duration) {
	r.t.Helper()
	f.kind, f.away = "killed", true
	f.on.server.Kill()
	r.wait(last / 2)
	f.to = r.now()
	r.startServer(f.on)
}

func (r *run) stop(f *fault, last time.Duration) {
	r.t.Helper()
	f.kind, f.away = "stopped", true
	f.on.server.Stop(r.t)
	r.wait(last)
	f.to = r.now()
	f.on.server.Continue()
}

func (r *run) replace(f *fault, _ time.Duration) {
	r.t.Helper()
	f.kind, f.loses = "replaced", false
	r.must(f.on.server.Process.Signal(syscall.SIGTERM))
	r.must(processes.Within(r.t, "the server to leave", startTimeout, f.on.server.Wait))
	r.startServer(f.on)
	f.to = r.now()
}

func (r *run) killGateway(f *fault, last time.Duration) {
	r.t.Helper()
	f.kind, f.away = "gateway killed", true
	f.on.gateway.Kill()
	r.wait(last / 2)
	r.startGateway(f.on)
	r.awaitFunction(f.on)
	f.to = r.now()
}

// checkDirect kills the gateway of a machine while a caller there calls, in Go. It goes on, because
// the gateway has directed it to the server of the same machine.
func (r *run) checkDirect(m *machine) {
	r.t.Helper()
	c := r.newCaller(m)
	c.kind = callerKind{built.goCaller, "unix:" + m.gatewayPath}
	p := r.startCaller(c.kind, c)
	var reading sync.WaitGroup
	reading.Go(func() {
		if err := ledger.Read(p.Output, r.note); err != nil {
			r.t.Error(err)
		}
	})
	r.awaitExecuted(m, "calls through the gateway")
	f := &fault{on: m, kind: "gateway killed", away: true, loses: true, from: r.now()}
	r.faults = append(r.faults, f)
	f.on.gateway.Kill()
	r.awaitExecuted(m, "calls that were directed to the server of their own host")
	r.startGateway(m)
	r.awaitFunction(m)
	f.to = r.now()
	p.Process.Kill()
	reading.Wait()
	p.Wait()
}

// awaitExecuted waits until a machine's server has executed more calls than one caller makes at a time.
func (r *run) awaitExecuted(m *machine, which string) {
	r.t.Helper()
	wanted := m.executed.Load() + 2*callsAtATime
	processes.WaitFor(r.t, which+" of host "+m.Name+" to be executed there", backWithin+r.slack(), func() bool {
		return m.executed.Load() >= wanted
	})
}

func (r *run) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// wait lets a fault last.
func (r *run) wait(d time.Duration) { <-time.After(d) }

// awaitCalls waits until calls between this machine and others are executed again.
func (r *run) awaitCalls(m *machine) {
	r.t.Helper()
	healed := int64(r.now())
	for _, from := range r.machines {
		for _, to := range r.machines {
			if from != to && (from == m || to == m) && r.haveCalls(from, to) {
				processes.WaitFor(r.t, "calls of host "+from.Name+" to host "+to.Name+" to go on", backWithin+r.slack(), func() bool {
					return to.called[from.number].Load() > healed
				})
			}
		}
	}
}

// haveCalls reports whether one machine always has calls for another. With a gateway, calls do not
// leave a machine that has a server.
func (r *run) haveCalls(from, to *machine) bool {
	return to.server != nil && (!r.gateways || from.server == nil)
}
