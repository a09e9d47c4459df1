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
	"github.com/nearcall/nearcall/resident/internal/inheritance"
	"github.com/nearcall/nearcall/resident/internal/lease"
)

// A pool supervises workers: it starts them, and tells launchers how they ended.
type pool struct {
	resident *resident
	wanted   int
	files    string // as filesAtStart has it
	queue    *lease.Queue

	mu       sync.Mutex
	starting int
	waiting  map[*member]bool
	failures int        // workers in a row that ended before they waited
	given    int        // serial workers that have a connection
	lost     int        // workers in a row that ended while they waited
	ready    bool       // one has waited
	leaving  bool       // the backlog is to be emptied
	draining bool       // it is empty
	failed   bool       // no more are started
	free     *sync.Cond // one waits, or failed
	members  sync.WaitGroup
}

// A member is a worker as its supervisor knows it. One goroutine hears it; the lock of
// the pool guards what is below process and lease.
type member struct {
	process *os.Process
	lease   *lease.Lease
	waited  bool
	taken   bool          // it has had a run
	running bool          // it has one now
	conn    *channel.Conn // the run's; nil: how it ends cannot be told
	done    chan bool     // of a serial one: it was done with what it was given, or ended before it began
}

func newPool(r *resident) (*pool, error) {
	queue, err := lease.NewQueue()
	if err != nil {
		return nil, err
	}
	p := &pool{queue: queue, resident: r, wanted: r.options.workers(), waiting: make(map[*member]bool)}
	p.free = sync.NewCond(&p.mu)
	if r.options.Mode == Pool {
		p.files = filesAtStart()
	}
	return p, nil
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
	for !p.draining && !p.failed && p.starting+len(p.waiting)+p.given < wanted {
		m, err := p.start()
		if err != nil {
			p.fail("no worker could be started", err)
			return
		}
		p.starting++
		p.members.Add(1)
		go p.attend(m)
	}
}

// fail is called with the lock held.
func (p *pool) fail(why string, err error) {
	p.failed = true
	p.free.Broadcast()
	p.resident.goAway(leaving{why: why, err: err})
}

// give gives a connection to a serial worker, when one is free, and returns when that
// is done with it, or when the launcher has withdrawn: what it passed is let go of then,
// for others wait for the end of its output. It returns false when there will be no
// worker. Those of a pool take it when they can: it came from one, to which its request
// did not come in time.
func (p *pool) give(conn *channel.Conn) bool {
	if p.resident.options.Mode == Pool {
		return p.enqueue(conn)
	}
	withdrawn := false // guarded by the lock
	defer conn.OnEnd(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		withdrawn = true
		p.free.Broadcast()
	})()
	for {
		m, done, wanted := p.claim(conn, &withdrawn)
		if m == nil {
			return !wanted
		}
		if err := conn.PassOn(m.lease.Give); errors.Is(err, unix.ETOOMANYREFS) {
			p.freed(m) // when something else fails it has ended
			return false
		}
		if <-done {
			return true
		}
	}
}

func (p *pool) enqueue(conn *channel.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.draining && !p.failed && conn.PassOn(p.queue.Put) == nil
}

// claim waits for a worker that waits, and makes it this connection's; nil: there
// will be none, or it is not wanted any more.
func (p *pool) claim(conn *channel.Conn, withdrawn *bool) (m *member, done chan bool, wanted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.waiting) == 0 && !p.failed && !*withdrawn {
		p.free.Wait()
	}
	if *withdrawn {
		return nil, nil, false
	}
	for m = range p.waiting {
		delete(p.waiting, m)
		p.given++
		m.conn, m.done = conn, make(chan bool, 1)
		return m, m.done, true
	}
	return nil, nil, true
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
	names := []string{inheritance.ListenFDs + "=3", inheritance.ListenNames + "=" + inheritance.NamesWorker, inheritance.Watched + "=" + p.resident.guard.watched.text(), inheritance.Files + "=" + p.files}
	failure := raw.Control(func(listener uintptr) {
		process, err = startProcess(os.Args, append(p.resident.guard.start[:len(p.resident.guard.start):len(p.resident.guard.start)], names...),
			[]uintptr{0, 1, 2, listener, theirs.Fd(), p.queue.Workers()})
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
			p.freed(m)
		case lease.Forward:
			p.resident.attend(channel.FromDescriptor(fd))
		case lease.Outgrown:
			p.resident.goAway(leaving{why: "a caller's resource limits are higher than its own"})
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
	p.free.Broadcast()
	p.mu.Unlock()
	if first {
		p.resident.ready()
	}
	p.fill()
}

// taken is for a worker that has committed itself to a run. Of a pool's the
// connection comes with it.
func (p *pool) taken(m *member, fd int) {
	p.resident.activity.beginRun()
	p.mu.Lock()
	m.taken, m.running, p.lost = true, true, 0
	delete(p.waiting, m)
	p.mu.Unlock()
	if fd == lease.NoDescriptor {
		return
	}
	conn, err := channel.FromDescriptor(fd)
	if err != nil {
		p.resident.log.Warn("how a run ends cannot be told", "reason", err)
		conn = nil
	}
	p.mu.Lock()
	m.conn = conn
	p.mu.Unlock()
	p.refill()
}

// refillDelay is how long the next start leaves the CPU to the run that has begun.
const refillDelay = 20 * time.Millisecond

// refill starts another worker: at once when none waits, else when the run has ended
// or goes on for a while.
func (p *pool) refill() {
	if p.waits() > 0 {
		time.AfterFunc(refillDelay, p.fill)
		return
	}
	p.fill()
}

// freed is for a worker that waits again: a serial one is done with what it was given
// and told the launcher so itself, one of a pool had a connection without a run.
func (p *pool) freed(m *member) {
	p.release(m, true)
	p.mu.Lock()
	p.waiting[m] = true
	p.mu.Unlock()
	p.free.Broadcast()
}

// release ends what the worker did, if anything. A connection that was given is of
// whoever gave it.
func (p *pool) release(m *member, done bool) {
	p.mu.Lock()
	conn, given, running := m.conn, m.done, m.running
	m.conn, m.done, m.running = nil, nil, false
	if given != nil {
		p.given--
	}
	p.mu.Unlock()
	switch {
	case given != nil:
		given <- done
	case conn != nil:
		_ = conn.Close()
	}
	if running {
		p.resident.activity.endRun()
	}
}

// outlive is for a worker that has become another program, which lets go of its lease as
// its end does: nobody tells that program when its caller is gone. It returns when the
// process has ended.
func (p *pool) outlive(m *member) {
	p.mu.Lock()
	conn, running := m.conn, m.running
	p.mu.Unlock()
	pid := m.process.Pid
	// A process that ends has no file any more when its descriptors are closed.
	if _, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || conn == nil || !running {
		return
	}
	defer conn.OnEnd(func() { _ = unix.Kill(-pid, unix.SIGHUP) })()
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// reap tells the launcher how the worker ended. Descriptors are closed by then.
func (p *pool) reap(m *member) {
	p.outlive(m)
	state, err := m.process.Wait()
	_ = m.lease.Close()
	conn, running := p.forget(m)
	if err == nil && conn != nil && running {
		_ = conn.Write(resultOf(state).frame()) // the launcher may be gone
	}
	p.release(m, running)
	p.mu.Lock()
	switch {
	case !m.waited:
		p.starting--
		p.failures++
	case !m.taken:
		p.lost++
	}
	if p.failures >= wire.ResidentStartsMax || p.lost > wire.ResidentWorkersCeiling {
		p.fail("workers end before they take a run", fmt.Errorf("a worker ended: %v", state))
	}
	p.mu.Unlock()
	p.fill()
}

// forget lets nobody claim a worker any more that has ended, and returns the
// connection that it had.
func (p *pool) forget(m *member) (conn *channel.Conn, running bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, m)
	return m.conn, m.running
}

func resultOf(state *os.ProcessState) result {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return result{killed: status.Signal()}
	}
	return result{code: state.ExitCode()}
}

// drain ends the pool: workers take what waits in the backlog and leave then.
func (p *pool) drain() {
	p.mu.Lock()
	p.leaving = true
	p.mu.Unlock()
	p.drained()
	p.members.Wait()
	p.close()
	// They could not take all, or ended: the launchers run the program themselves.
	for fd := p.resident.acceptNow(); fd >= 0; fd = p.resident.acceptNow() {
		p.resident.attend(channel.FromDescriptor(fd))
	}
}

// close lets go of what no worker has taken: nothing of it was done.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining = true
	_ = p.queue.Close()
}

// drained ends the leases when the resident leaves and nobody waits any more.
func (p *pool) drained() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.leaving || p.resident.backlog() || !p.queue.Empty() {
		return
	}
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
