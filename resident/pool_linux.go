package resident

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/resident/internal/channel"
	"github.com/nearcall/nearcall/resident/internal/lease"
)

// A pool supervises workers: it starts them, and tells launchers how they ended.
type pool struct {
	resident *resident
	wanted   int

	mu       sync.Mutex
	starting int
	waiting  map[*member]bool
	failures int  // workers in a row that ended before they waited
	lost     int  // workers in a row that ended while they waited
	ready    bool // one has waited
	draining bool
	members  sync.WaitGroup
}

// A member is a worker as its supervisor knows it. One goroutine has it.
type member struct {
	process *os.Process
	lease   *lease.Lease
	waited  bool
	taken   bool          // it has had a run
	running bool          // it has one now
	conn    *channel.Conn // the run's; nil: how it ends cannot be told
}

func newPool(r *resident) *pool {
	return &pool{resident: r, wanted: r.options.workers(), waiting: make(map[*member]bool)}
}

func (p *pool) waits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting)
}

// fill starts the workers that are missing: the first alone, for its memory helps
// the others start.
func (p *pool) fill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := p.wanted
	if !p.ready {
		wanted = 1
	}
	for !p.draining && p.starting+len(p.waiting) < wanted {
		m, err := p.start()
		if err != nil {
			p.resident.goAway(leaving{why: "no worker could be started", err: err})
			return
		}
		p.starting++
		p.members.Add(1)
		go p.attend(m)
	}
}

// start starts a worker of this very program, even if its file is another by now.
func (p *pool) start() (*member, error) {
	own, theirs, err := lease.Pair()
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirs.Close() }()
	var process *os.Process
	raw, err := p.resident.listener.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	names := []string{variableListenFDs + "=2", variableListenNames + "=" + namesWorker}
	failure := raw.Control(func(listener uintptr) {
		process, err = startProcess(os.Args, append(p.resident.guard.start[:len(p.resident.guard.start):len(p.resident.guard.start)], names...),
			[]uintptr{0, 1, 2, listener, theirs.Fd()})
	})
	if err = errors.Join(err, failure); err != nil {
		return nil, errors.Join(err, own.Close())
	}
	return &member{process: process, lease: own}, nil
}

func startProcess(arguments, environment []string, files []uintptr) (*os.Process, error) {
	pid, err := syscall.ForkExec("/proc/self/exe", arguments, &syscall.ProcAttr{
		Env: environment, Files: files, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, os.NewSyscallError("fork/exec", err)
	}
	return os.FindProcess(pid)
}

// attend hears what a worker says until it ends.
func (p *pool) attend(m *member) {
	defer p.members.Done()
	for {
		message, fd, err := m.lease.Receive()
		if err != nil {
			break
		}
		switch message {
		case lease.Ready:
			p.waitsNow(m)
		case lease.Taken:
			p.taken(m, fd)
		case lease.Free:
			p.free(m)
		case lease.Forward:
			p.resident.attend(channel.FromDescriptor(fd))
		}
		p.drained()
	}
	p.reap(m)
}

// waitsNow is for a worker that is ready for its first run.
func (p *pool) waitsNow(m *member) {
	p.mu.Lock()
	p.starting--
	m.waited = true
	p.waiting[m] = true
	first := !p.ready
	p.ready, p.failures = true, 0
	p.mu.Unlock()
	if first {
		p.resident.ready()
	}
	p.fill()
}

func (p *pool) taken(m *member, fd int) {
	p.resident.activity.beginRun()
	conn, err := channel.FromDescriptor(fd)
	if err != nil {
		p.resident.log.Warn("how a run ends cannot be told", "reason", err)
	}
	p.mu.Lock()
	m.conn, m.taken, m.running, p.lost = conn, true, true, 0
	delete(p.waiting, m)
	p.mu.Unlock()
	if p.resident.options.Mode != Serial {
		p.refill()
	}
}

// refillDelay is how long the next start leaves the CPU to the run that has begun.
const refillDelay = 20 * time.Millisecond

// refill starts another worker: at once when none waits, else when the run has ended
// or goes on for a while.
func (p *pool) refill() {
	p.mu.Lock()
	waits := len(p.waiting) > 0
	p.mu.Unlock()
	if waits {
		time.AfterFunc(refillDelay, p.fill)
		return
	}
	p.fill()
}

// free is for a serial worker whose run has ended; it told so itself.
func (p *pool) free(m *member) {
	p.mu.Lock()
	p.waiting[m] = true
	p.mu.Unlock()
	p.release(m)
}

func (p *pool) release(m *member) {
	if m.conn != nil {
		_ = m.conn.Close()
		m.conn = nil
	}
	if m.running {
		m.running = false
		p.resident.activity.endRun()
	}
}

// reap tells the launcher how the worker ended. Descriptors are closed by then.
func (p *pool) reap(m *member) {
	state, err := m.process.Wait()
	_ = m.lease.Close()
	if err == nil && m.conn != nil {
		_ = m.conn.Write(resultOf(state).frame()) // the launcher may be gone
	}
	p.release(m)
	p.mu.Lock()
	delete(p.waiting, m)
	switch {
	case !m.waited:
		p.starting--
		p.failures++
	case !m.taken:
		p.lost++
	}
	failed := p.failures >= wire.ResidentStartsMax || p.lost > wire.ResidentWorkersCeiling
	p.mu.Unlock()
	if failed {
		p.resident.goAway(leaving{why: "workers end before they take a run", err: fmt.Errorf("a worker ended: %v", state)})
		return
	}
	p.fill()
}

func resultOf(state *os.ProcessState) result {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return result{killed: status.Signal()}
	}
	return result{code: state.ExitCode()}
}

// drain ends the pool: workers take what waits in the backlog and leave then.
func (p *pool) drain() {
	p.drained()
	p.members.Wait()
	// They could not take all, or ended: the launchers run the program themselves.
	for fd := p.resident.acceptNow(); fd >= 0; fd = p.resident.acceptNow() {
		p.resident.attend(channel.FromDescriptor(fd))
	}
}

// drained ends the leases when the resident leaves and nobody waits any more.
func (p *pool) drained() {
	if !p.resident.leaving.Load() || p.resident.backlog() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining = true
	for m := range p.waiting {
		_ = m.lease.End()
	}
}

// backlog tells whether a launcher waits.
func (r *resident) backlog() bool {
	waits := false
	raw, err := r.listener.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 0)
		waits = err == nil && n == 1
	})
	return waits
}
