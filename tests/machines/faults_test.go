package machines_test

import (
	"syscall"
	"time"

	"github.com/nearcall/nearcall/tests/processes"
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
	r.faults = append(r.faults, f)
	f.from = r.now()
	last := time.Duration(r.number(faultMs)) * time.Millisecond
	switch r.number(5) {
	case 0:
		f.kind, f.away = "link down", true
		r.must(f.on.Cut())
		r.wait(last)
		f.to = r.now()
		r.must(f.on.Heal())
	case 1:
		f.kind, f.away = "silence", true
		r.must(f.on.Silence())
		r.wait(last)
		f.to = r.now()
		r.must(f.on.Heal())
	case 2:
		f.kind, f.away = "killed", true
		f.on.server.Kill()
		r.wait(last / 2)
		f.to = r.now()
		r.startServer(f.on)
	case 3:
		f.kind, f.away = "stopped", true
		f.on.server.Stop(r.t)
		r.wait(last)
		f.to = r.now()
		f.on.server.Continue()
	case 4:
		f.kind, f.loses = "replaced", false
		r.must(f.on.server.Process.Signal(syscall.SIGTERM))
		r.must(processes.Within(r.t, "the server to leave", startTimeout, f.on.server.Wait))
		r.startServer(f.on)
		f.to = r.now()
	}
	r.awaitCalls(f.on)
}

func (r *run) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// wait lets a fault last.
func (r *run) wait(d time.Duration) { <-time.After(d) }

// awaitCalls waits until another machine's call is executed by this one.
func (r *run) awaitCalls(m *machine) {
	r.t.Helper()
	healed := int64(r.now())
	processes.WaitFor(r.t, "host "+m.Name+" to be called again by others", backWithin+r.slack(), func() bool {
		return m.fromOthers.Load() > healed
	})
}
