package resident

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/resident/internal/channel"
	"github.com/nearcall/nearcall/resident/internal/lease"
	"github.com/nearcall/nearcall/resident/internal/request"
)

// takeSerially runs the program in this process, and then restores the process.
func (w *worker) takeSerially(conn *channel.Conn, p *passed) error {
	_ = w.lease.Tell(lease.Taken, lease.NoDescriptor) // the supervisor may be gone
	own, err := undress()
	if err != nil {
		return errors.Join(err, unix.Chdir("/"))
	}
	if err := conn.Write(request.Frame{Type: request.Running, Second: uint32(unix.Getpid())}); err != nil {
		own.dress()
		return err
	}
	if err := p.dress(); err != nil {
		w.log.Error("a run could not begin", "reason", err)
		os.Exit(exitNotStarted) // the supervisor passes this on to the launcher
	}
	result := w.runSerially(conn, p)
	own.dress()
	if err := w.guard.limits.restore(); err != nil {
		_ = conn.Write(result.frame()) // the launcher may be gone
		w.log.Info("another process takes the next run", "reason", err)
		os.Exit(0)
	}
	return conn.Write(result.frame())
}

func (w *worker) runSerially(conn *channel.Conn, p *passed) result {
	var files [streams]*os.File
	for fd := range streams {
		files[fd] = os.NewFile(uintptr(p.descriptors[fd]), streamName(fd))
	}
	// These are not descriptors 0, 1 and 2: a goroutine that stays behind could still
	// hold files of this run, and would close those of the next.
	os.Stdin, os.Stdout, os.Stderr = files[0], files[1], files[2]
	caught, ctx := newSignals(context.Background(), true)
	s := newSession(conn)
	s.signal = func(received syscall.Signal) {
		if received != unix.SIGTSTP { // a launcher that is stopped does not pass on CONT
			_ = unix.Kill(-unix.Getpid(), received)
		}
	}
	s.gone = func() { hangUp(caught) }
	inv := p.invocation(files)
	inv.signals = caught
	go s.read()
	r := call(ctx, w.run, inv, s)
	s.end()
	caught.stop()
	forgetSignals()
	inv.close()
	return r
}

// forgetSignals undoes what the run has done to signals. Reset would not make a signal
// that the run has ignored work again.
func forgetSignals() {
	signal.Reset()
	for s := syscall.Signal(1); s < signalsEnd; s++ {
		if signal.Ignored(s) {
			defaultAction(s)
			c := make(chan os.Signal, 1)
			signal.Notify(c, s)
			signal.Stop(c)
		}
	}
}

// signalsEnd is one more than the number of the last signal on Linux.
const signalsEnd = 65

func streamName(fd int) string {
	return [streams]string{"/dev/stdin", "/dev/stdout", "/dev/stderr"}[fd]
}

// An undressed is what a process has of its own between runs.
type undressed struct {
	files       [streams]*os.File
	descriptors [streams]int
	arguments   []string
	environment []string
	umask       int
}

// undress remembers what the process has of its own.
func undress() (*undressed, error) {
	u := &undressed{files: [streams]*os.File{os.Stdin, os.Stdout, os.Stderr}, arguments: os.Args, environment: os.Environ()}
	for fd := range streams {
		var err error
		if u.descriptors[fd], err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, streams); err != nil {
			closeDescriptors(u.descriptors[:fd])
			return nil, os.NewSyscallError("fcntl", err)
		}
	}
	u.umask = processUmask()
	return u, nil
}

// dress gives that back to the process.
func (u *undressed) dress() {
	for fd := range streams {
		_ = unix.Dup3(u.descriptors[fd], fd, 0) // cannot fail, because both are open
	}
	closeDescriptors(u.descriptors[:])
	os.Stdin, os.Stdout, os.Stderr = u.files[0], u.files[1], u.files[2]
	os.Args = u.arguments
	setEnvironment(u.environment)
	unix.Umask(u.umask)
	_ = unix.Chdir("/")
}

func closeDescriptors(descriptors []int) {
	for _, fd := range descriptors {
		_ = unix.Close(fd)
	}
}
