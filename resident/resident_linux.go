package resident

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/peercred"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/resident/internal/channel"
	"github.com/nearcall/nearcall/resident/internal/inheritance"
	"github.com/nearcall/nearcall/resident/internal/place"
	"github.com/nearcall/nearcall/resident/internal/request"
)

// reside is what a process does that was started as a resident, or as one of its
// workers.
func reside(o Options, run runFunc) int {
	var started start
	err := startInDirectory(o)
	if err == nil {
		o.Watch = absolute(o.Watch)
		started, err = inherited()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
		return exitNotStarted
	}
	if started.worker {
		var w *worker
		if w, err = newWorker(o, run, started); err == nil {
			err = w.work()
		}
	} else {
		var r *resident
		if r, err = newResident(o, run, started); err == nil {
			err = r.live()
		}
	}
	if err != nil {
		o.logger().Error("the process ends", "reason", err)
		return 1
	}
	return 0
}

// absolute makes paths absolute, because the program may change its directory.
func absolute(paths []string) []string {
	var all []string
	for _, path := range paths {
		if there, err := filepath.Abs(path); err == nil {
			path = there
		}
		all = append(all, path)
	}
	return all
}

func (o Options) logger() *slog.Logger {
	if o.Logger != nil {
		return o.Logger
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil)).With("process", os.Getpid())
}

func (o Options) idle() time.Duration {
	if o.Idle == 0 {
		return wire.ResidentIdleMs * time.Millisecond
	}
	return o.Idle
}

func (o Options) workers() int {
	switch {
	case o.Mode == Serial:
		return 1
	case o.Workers == 0:
		return wire.ResidentWorkers
	}
	return o.Workers
}

// A resident is the process that listens. It runs what runs concurrently, or supervises
// the workers that run.
type resident struct {
	options  Options
	run      runFunc
	log      *slog.Logger
	place    place.Place
	program  string // the path of its file
	socket   socketFile
	started  time.Time
	listener *net.UnixListener
	guard    *guard
	activity *activity
	beside   *beside // nil if there are no functions
	pool     *pool   // nil in mode Concurrent

	complaints complaints

	leave    chan leaving // the reason of the first who gives one
	leaving  atomic.Bool
	accepted sync.WaitGroup // counts connections that are being served
}

// leaving says why a resident leaves.
type leaving struct {
	why      string
	outdated bool
	err      error // nil if all is well
}

func newResident(o Options, run runFunc, started start) (*resident, error) {
	r := &resident{options: o, run: run, log: o.logger(), program: os.Args[0], started: time.Now(), leave: make(chan leaving, 1)}
	r.complaints.log = r.log
	var err error
	if r.place, err = place.OfLock(started.lock); err != nil {
		return nil, err
	}
	if r.socket, err = ownSocket(started.socket, r.place.Socket()); err != nil {
		return nil, err
	}
	if r.guard, err = newGuard(o, watchedNow(o.Watch)); err != nil {
		return nil, err
	}
	file := os.NewFile(inheritance.Listener, r.place.Socket())
	defer func() { _ = file.Close() }()
	made, err := net.FileListener(file)
	if err != nil {
		return nil, err
	}
	var ok bool
	if r.listener, ok = made.(*net.UnixListener); !ok {
		return nil, errors.Join(errNotInherited, made.Close())
	}
	r.listener.SetUnlinkOnClose(false)
	// Listening again makes SO_PEERCRED name this process to launchers, and not the one
	// that has bound the socket.
	if err := unix.Listen(inheritance.Listener, wire.ListenBacklog); err != nil {
		return nil, os.NewSyscallError("listen", err)
	}
	r.activity = newActivity(o.idle(), r.idle)
	return r, nil
}

// live returns when the resident has left.
func (r *resident) live() error {
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	r.watch()
	r.serveBeside()
	if err := r.begin(); err != nil {
		return err
	}
	r.activity.watch() // not sooner: what it looks at exists only now, and preparing is not idling
	var l leaving
	select {
	case l = <-r.leave:
	case <-terminate:
		l.why = "SIGTERM"
	}
	signal.Stop(terminate) // the next signal ends the process at once
	r.log.Info("the resident leaves", "reason", l.why)
	r.leaving.Store(true)
	return errors.Join(l.err, r.withdraw(l), r.finish())
}

func (r *resident) begin() error {
	if r.options.Mode != Concurrent {
		var err error
		if r.pool, err = newPool(r); err != nil {
			return err
		}
		r.pool.fill()
	}
	switch {
	case r.options.Mode == Pool:
		return nil // its workers accept
	case r.options.Mode == Serial:
		r.accepted.Add(1)
		go r.accept()
		return nil
	}
	if r.options.Warm != nil {
		if err := r.options.Warm(); err != nil {
			return err
		}
	}
	r.guard.keepChanges()
	r.ready()
	r.accepted.Add(1)
	go r.accept()
	return nil
}

// goAway makes the resident leave.
func (r *resident) goAway(l leaving) {
	select {
	case r.leave <- l:
	default:
	}
}

func (r *resident) idle() bool {
	if r.beside.open() {
		return false
	}
	r.goAway(leaving{why: "nothing ran for long"})
	return true
}

// withdraw makes sure that no launcher finds this resident any more. As long as this
// process listens, that is right even without the lock.
func (r *resident) withdraw(l leaving) error {
	lock, err := r.place.TakeLockSoon()
	if err != nil && !errors.Is(err, place.ErrLocked) {
		return err
	}
	defer func() { _ = lock.Release() }()
	err = nil
	if r.isFound() {
		err = os.Remove(r.place.Socket())
	}
	if l.outdated {
		_ = os.Remove(r.place.Log())
		err = errors.Join(err, os.Remove(r.place.Lock()))
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil // somebody has already removed it
	}
	return err
}

// finish takes what waits in the backlog and returns when nothing goes on any more.
func (r *resident) finish() error {
	_ = r.listener.SetDeadline(time.Unix(1, 0)) // makes a goroutine in accept empty the backlog
	if r.options.Mode != Pool {
		r.accepted.Wait()
	}
	if r.pool != nil {
		r.pool.drain()
	}
	r.accepted.Wait()
	r.activity.await()
	r.beside.stop()
	return r.listener.Close()
}

// accept serves connections until the resident leaves, and then those that still wait.
func (r *resident) accept() {
	defer r.accepted.Done()
	for {
		socket, err := r.listener.AcceptUnix()
		if err == nil {
			r.attend(channel.Open(socket))
			continue
		}
		if r.leaving.Load() {
			break
		}
		r.log.Warn("accept failed", "reason", err)
		time.Sleep(acceptPause)
	}
	for fd := r.acceptNow(); fd >= 0; fd = r.acceptNow() {
		r.attend(channel.FromDescriptor(fd))
	}
}

// acceptPause is how long to wait after a failure: the process is short of descriptors,
// and nothing tells when there are some.
const acceptPause = 10 * time.Millisecond

// acceptNow returns a connection that waits, or -1 if there is none.
func (r *resident) acceptNow() int {
	accepted := -1
	raw, err := r.listener.SyscallConn()
	if err != nil {
		return accepted
	}
	_ = raw.Control(func(fd uintptr) {
		if got, _, err := unix.Accept4(int(fd), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK); err == nil {
			accepted = got
		}
	})
	return accepted
}

// attend serves a connection in a goroutine. The connection belongs to it.
func (r *resident) attend(conn *channel.Conn, err error) {
	if err != nil {
		r.complaints.of("a connection was lost", err)
		return
	}
	r.accepted.Add(1)
	r.activity.begin()
	go func() {
		defer r.accepted.Done()
		defer r.activity.end()
		if err := r.answer(conn); err != nil && !errors.Is(err, io.EOF) {
			r.complaints.of("a connection ended", err)
		}
	}()
}

func (r *resident) answer(conn *channel.Conn) error {
	peer, known := knows(conn)
	if !known {
		return errors.Join(errStranger, conn.Close())
	}
	header, err := conn.Header(channel.HelloTimeout)
	if errors.Is(err, channel.ErrOther) && r.beside.take(conn.Socket()) {
		return nil
	}
	defer func() { _ = conn.Close() }()
	switch {
	case errors.Is(err, request.ErrVersion):
		return conn.Write(request.Frame{Type: request.Plainly, Text: err.Error()})
	case err != nil:
		return err
	case header.Kind == request.Run:
		return r.answerRun(conn, header, peer)
	}
	if _, _, err := conn.Receive(header); err != nil {
		return err
	}
	stop := header.Kind == request.Stop
	text, err := r.report(stop || r.leaving.Load())
	if err == nil {
		err = conn.Write(request.Frame{Type: request.Report, Text: text})
	}
	if stop {
		r.goAway(leaving{why: "it was told to stop"})
	}
	return err
}

// answerRun runs the program here, or leaves that to the launcher.
func (r *resident) answerRun(conn *channel.Conn, h request.Header, peer peercred.Credentials) error {
	if r.pool != nil {
		if r.pool.give(conn) {
			return nil
		}
		return conn.Write(request.Frame{Type: request.Plainly, Text: "the resident has no process for it; see its log"})
	}
	p, err := r.guard.receive(conn, h, peer)
	var why plainlyError
	if errors.As(err, &why) {
		return conn.Write(request.Frame{Type: request.Plainly, Text: why.Error()})
	}
	if err == nil {
		r.runConcurrently(conn, p)
	}
	return err
}

var errStranger = errors.New("a connection of another user")

func procDescriptor(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }
