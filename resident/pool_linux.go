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

// A pool supervises workers: it starts them, and tells launchers how they have ended.
type pool struct {
	resident *resident
	wanted   int
	files    string // what filesAtStart has returned
	queue    *lease.Queue

	mu       sync.Mutex
	starting int
	waiting  map[*member]bool
	failures int        // workers in a row that have ended before they waited
	given    int        // serial workers that have a connection now
	lost     int        // workers in a row that have ended while they waited
	ready    bool       // a worker has waited
	leaving  bool       // the resident leaves, and the backlog is to be emptied
	draining bool       // the backlog is empty
	failed   bool       // no more workers are started
	free     *sync.Cond // signalled when a worker waits, and when failed is set
	members  sync.WaitGroup
}

// A member is a worker as its supervisor sees it. One goroutine receives its messages.
// The pool's lock guards the fields below process and lease.
type member struct {
	process *os.Process
	lease   *lease.Lease
	waited  bool
	taken   bool          // it has taken a run
	running bool          // it has a run now
	conn    *channel.Conn // that of the run; nil if nobody can be told how it ends
	done    chan bool     // of a serial worker: true if it has done what it was given, false if it has ended before it began
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

// fill starts the workers that are missing. The first one is started alone, because its
// memory helps the others to start.
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

// fail notes that no more workers can be started. Its caller holds the lock.
func (p *pool) fail(why string, err error) {
	p.failed = true
	p.free.Broadcast()
	p.resident.goAway(leaving{why: why, err: err})
}

// give gives a connection to a serial worker when one is free, and returns when the
// worker is done with it. It also returns when the launcher has withdrawn, to let go of
// what it has passed: others may be waiting for the end of its output. It returns false
// if there will be no worker.
//
// In a pool it queues the connection, which workers take when they can. Such a
// connection comes from a worker that the request did not reach in time.
func (p *pool) give(conn *channel.Conn) bool {
	if p.resident.options.Mode == Pool {
		return p.enqueue(conn)
	}
	withdrawn := false // guarded by the pool's lock
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
			p.freed(m) // after any other failure the worker has ended
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

// claim waits for a free worker and assigns it to this connection. It returns no worker
// if there will be none or, with wanted false, if the launcher has withdrawn.
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

// start starts a worker from this very program, even if its file has been replaced by
// now.
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

// attend receives the messages of a worker until the worker ends.
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

// waitsNow is called when a worker is ready for its first run.
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

// taken is called when a worker has committed itself to a run. In a pool the connection
// comes with that message.
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

// refillDelay is how long the start of the next worker leaves the CPU to the run that
// has just begun.
const refillDelay = 20 * time.Millisecond

// refill starts another worker. It does so at once if none is waiting, and otherwise
// after a delay.
func (p *pool) refill() {
	if p.waits() > 0 {
		time.AfterFunc(refillDelay, p.fill)
		return
	}
	p.fill()
}

// freed is called when a worker waits again. A serial worker has then done what it was
// given, and has told the launcher so itself. A worker of a pool had a connection that
// brought no run.
func (p *pool) freed(m *member) {
	p.release(m, true)
	p.mu.Lock()
	p.waiting[m] = true
	p.mu.Unlock()
	p.free.Broadcast()
}

// release ends what the worker was doing, if anything. A connection that was given to
// it belongs to whoever gave it.
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

// outlive is for a worker that has become another program. That lets go of the worker's
// lease, as the end of a process does, and nobody tells the other program when its
// caller is gone. outlive does, and returns when the process has ended.
func (p *pool) outlive(m *member) {
	p.mu.Lock()
	conn, running := m.conn, m.running
	p.mu.Unlock()
	pid := m.process.Pid
	// When a process ends, it no longer has a file by the time its descriptors are
	// closed.
	if _, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || conn == nil || !running {
		return
	}
	defer conn.OnEnd(func() { _ = unix.Kill(-pid, unix.SIGHUP) })()
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// reap tells the launcher how the worker has ended. The worker's descriptors are closed
// by then.
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

// forget makes sure that nobody claims a worker that has ended, and returns the
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

// drain ends the pool. Workers take what waits in the backlog and then leave.
func (p *pool) drain() {
	p.mu.Lock()
	p.leaving = true
	p.mu.Unlock()
	p.drained()
	p.members.Wait()
	p.close()
	// If the workers could not take everything, launchers run the program themselves.
	for fd := p.resident.acceptNow(); fd >= 0; fd = p.resident.acceptNow() {
		p.resident.attend(channel.FromDescriptor(fd))
	}
}

// close lets go of what no worker has taken. None of that was begun.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining = true
	_ = p.queue.Close()
}

// drained ends the leases of waiting workers if the resident leaves and no launcher
// waits any more.
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

// backlog reports whether a launcher waits.
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
