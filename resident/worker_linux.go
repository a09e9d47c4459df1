package resident

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/resident/internal/channel"
	"github.com/nearcall/nearcall/resident/internal/inheritance"
	"github.com/nearcall/nearcall/resident/internal/lease"
	"github.com/nearcall/nearcall/resident/internal/request"
)

// A worker is a process of a pool, or the process that runs in a serial resident. It
// leads a process group.
type worker struct {
	options Options
	run     runFunc
	lease   *lease.Worker
	guard   *guard
	log     *slog.Logger
	files   string // the soft limit of files for programs that it starts; "" if not known

	complaints complaints
}

func newWorker(o Options, run runFunc, started start) (*worker, error) {
	l, err := lease.Open(inheritance.Lease, inheritance.Listener, inheritance.Queue)
	if err != nil {
		return nil, err
	}
	g, err := newGuard(o, watchedBefore(o.Watch, started.watched))
	if err != nil {
		return nil, err
	}
	if o.Warm != nil {
		if err := o.Warm(); err != nil {
			return nil, err
		}
	}
	g.keepChanges()
	return &worker{options: o, run: run, lease: l, guard: g, log: o.logger(), files: started.files, complaints: complaints{log: o.logger()}}, nil
}

// work waits for runs until the lease ends. In a pool it does not return once it has
// taken a run.
func (w *worker) work() error {
	if err := w.lease.Tell(lease.Ready, lease.NoDescriptor); err != nil {
		return err
	}
	next := w.lease.Next
	if w.options.Mode == Serial {
		// If the supervisor is killed, a worker that holds the socket while it runs
		// would keep launchers waiting.
		w.lease.Leave()
		next = w.lease.NextGiven
	}
	for {
		fd, err := next()
		if err != nil || fd == lease.NoDescriptor {
			return err
		}
		conn, err := channel.FromDescriptor(fd)
		if err == nil {
			var p *passed
			if p, err = w.attend(conn); p != nil {
				// Nothing else is deferred here or in the callers: it would run while a
				// panic of the program unwinds, before the trace is written.
				w.runAlone(conn, p)
			}
			err = errors.Join(err, conn.Close())
		}
		// A supervisor that leaves waits for the end of the last connection from the
		// backlog.
		err = errors.Join(err, w.lease.Tell(lease.Free, lease.NoDescriptor))
		if err != nil && !errors.Is(err, io.EOF) {
			w.complaints.of("a connection ended", err)
		}
	}
}

// silence is how long a worker of a pool waits for a launcher that has connected. The
// supervisor waits longer, for any number of launchers.
const silence = 10 * time.Millisecond

func (w *worker) patience() time.Duration {
	if w.options.Mode == Pool {
		return silence
	}
	return channel.HelloTimeout
}

// attend serves one connection. In a pool it returns the run that this process has
// taken. In mode Serial the run is over when attend returns.
func (w *worker) attend(conn *channel.Conn) (*passed, error) {
	peer, known := knows(conn)
	if !known {
		return nil, errStranger
	}
	header, err := conn.Header(w.patience())
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && w.options.Mode == Pool:
		return nil, conn.PassOn(func(fd int) error { return w.lease.Tell(lease.Forward, fd) })
	case errors.Is(err, request.ErrVersion):
		return nil, conn.Write(request.Frame{Type: request.Plainly, Text: err.Error()})
	case errors.Is(err, channel.ErrOther), err == nil && header.Kind != request.Run:
		return nil, conn.PassOn(func(fd int) error { return w.lease.Tell(lease.Forward, fd) })
	case err != nil:
		return nil, err
	}
	p, err := w.guard.receive(conn, header, peer)
	if err == nil {
		if err = p.enter(); err == nil && w.options.Mode == Serial {
			err = w.takeSerially(conn, p)
		} else if err == nil {
			if err = w.take(conn, p); err == nil {
				return p, nil
			}
		}
		if err == nil {
			p.close()
		} else {
			p.refuse()
		}
	}
	var why plainlyError
	if errors.As(err, &why) {
		return nil, errors.Join(conn.Write(request.Frame{Type: request.Plainly, Text: why.Error()}), unix.Chdir("/"))
	}
	return nil, err
}

// take commits this process to a run and gives it to the caller. Until RUNNING is sent
// nothing was done that would keep the launcher from running the program itself.
func (w *worker) take(conn *channel.Conn, p *passed) error {
	if err := p.limits(w.files); err != nil {
		if errors.Is(err, unix.EPERM) {
			_ = w.lease.Tell(lease.Outgrown, lease.NoDescriptor) // the caller, who will start the next resident, has these limits
		}
		var why plainlyError
		if !errors.As(err, &why) {
			_ = conn.Write(request.Frame{Type: request.Plainly, Text: err.Error()})
			os.Exit(0) // another worker takes its place
		}
		return err
	}
	if err := w.announce(conn); err != nil {
		_ = conn.Write(request.Frame{Type: request.Plainly, Text: err.Error()})
		os.Exit(0)
	}
	pid := unix.Getpid()
	if err := conn.Write(request.Frame{Type: request.Running, Value: uint32(pid), Second: uint32(pid)}); err != nil {
		os.Exit(0) // withdrawn; this process already has the caller's limits, so another takes its place
	}
	w.lease.Leave()
	if err := p.dress(); err != nil {
		w.log.Error("a run could not begin", "reason", err)
		os.Exit(exitNotStarted)
	}
	closeDescriptors(p.descriptors[:streams])
	return nil
}

// announce gives the supervisor a copy of the connection. Without a supervisor the run
// goes on, and tells its end itself.
func (w *worker) announce(conn *channel.Conn) error {
	err := conn.Control(func(fd int) error { return w.lease.Tell(lease.Taken, fd) })
	if errors.Is(err, unix.ETOOMANYREFS) {
		return fmt.Errorf("too many descriptors of this user are on the way: %w", err)
	}
	return nil
}

// runAlone runs the program and ends the process.
func (w *worker) runAlone(conn *channel.Conn, p *passed) {
	before := [streams]*os.File{os.Stdin, os.Stdout, os.Stderr}
	adoptStreams()
	caught, ctx := newSignals(context.Background(), true)
	inv := p.invocation([streams]*os.File{os.Stdin, os.Stdout, os.Stderr})
	s := newSession(conn)
	s.signal = func(syscall.Signal) {} // signals come to the process group
	s.gone = func() { hangUp(caught) }
	inv.signals, inv.host = caught, &aloneHost{s}
	go s.read()
	defer exitAfterGoexit(inv.host)
	inv.host.exit(w.run(ctx, inv))
	runtime.KeepAlive(before) // otherwise finalizers would close 0, 1 and 2
}

// exitAfterGoexit is deferred. It exits when a run has ended its own goroutine, because
// other goroutines would keep the process alive. It lets a panic pass, as the trace is
// not written yet.
func exitAfterGoexit(h host) {
	var callers [framesMax]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers[:])])
	for {
		frame, more := frames.Next()
		switch {
		case frame.Function == "runtime.gopanic":
			return
		case frame.Function == "runtime.Goexit":
			h.exit(exitPanicked)
		case !more:
			return
		}
	}
}

// framesMax is more frames than there are between Goexit and the function that it
// calls.
const framesMax = 16

// adoptStreams makes new files for the caller's descriptors. The os.Files from the
// start of the process remember the modes of other files: whether they block and
// whether they append.
func adoptStreams() {
	for fd, stream := range []**os.File{&os.Stdin, &os.Stdout, &os.Stderr} {
		*stream = os.NewFile(uintptr(fd), (*stream).Name())
	}
}

// hangUp does what a terminal does when its user has left.
func hangUp(s *signals) {
	s.cancel(ErrCallerGone)
	_ = unix.Kill(-unix.Getpid(), unix.SIGHUP)
}

// An aloneHost is the host of a run that has a process to itself.
type aloneHost struct{ session *session }

// exit also tells the launcher the code, because the supervisor may have ended.
func (h *aloneHost) exit(code int) {
	_ = h.session.conn.Write(request.Frame{Type: request.Ending, Value: uint32(code & 0xff)})
	os.Exit(code)
}

func (h *aloneHost) execute(ctx context.Context, arguments []string) (int, error) {
	return h.session.execute(ctx, arguments)
}
