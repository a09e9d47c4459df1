package resident

import (
	"context"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/resident/internal/channel"
	"github.com/nearcall/nearcall/resident/internal/request"
)

// runConcurrently runs the program beside other runs. It returns when the launcher was
// told how the run ended.
func (r *resident) runConcurrently(conn *channel.Conn, p *passed) {
	// The run is counted before the launcher is told, so that whoever knows of a run
	// finds it in the report.
	r.activity.beginRun()
	if err := conn.Write(request.Frame{Type: request.Running, Second: uint32(unix.Getpid())}); err != nil {
		r.activity.withdrawRun()
		p.close()
		return
	}
	defer r.activity.endRun()
	input := p.reopenInput()
	var files [streams]*os.File
	for fd := range streams {
		files[fd] = os.NewFile(uintptr(p.descriptors[fd]), streamName(fd))
	}
	caught, ctx := newSignals(context.Background(), false)
	inv := p.invocation(files)
	inv.signals, inv.concurrent = caught, true
	inv.lend(input)
	s := newSession(conn)
	told := make(chan struct{})
	finish := func(how result) {
		if s.end() {
			caught.stop()
			inv.close()
			_ = conn.Write(how.frame())
			close(told)
		}
	}
	s.signal = func(received syscall.Signal) {
		if how, over := unknownSignal(received); !caught.deliver(received) && over {
			go finish(how)
		}
	}
	s.gone = func() {
		caught.cancel(ErrCallerGone)
		s.signal(unix.SIGHUP)
	}
	go s.read()
	go func() { finish(call(ctx, r.run, inv, s)) }()
	<-told
}

// unknownSignal returns how a signal ends a Go program that does not handle it, and
// whether it does.
func unknownSignal(s syscall.Signal) (how result, ends bool) {
	switch s {
	case unix.SIGHUP, unix.SIGINT, unix.SIGTERM:
		return result{killed: s}, true
	case unix.SIGQUIT:
		return result{code: exitPanicked}, true
	}
	return result{}, false
}

// reopenInput replaces an input that is a pipe or a terminal by a new open file
// description of the same one, which can be waited for without a thread and closed
// meanwhile. The original shares its description with the caller's shell and must stay
// as it is. reopenInput returns the original, for programs that the run starts, or nil
// if nothing was replaced.
func (p *passed) reopenInput() *os.File {
	fd := p.descriptors[0]
	var s unix.Stat_t
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE == unix.O_WRONLY || flags&unix.O_PATH != 0 || unix.Fstat(fd, &s) != nil {
		return nil
	}
	_, notTerminal := unix.IoctlGetTermios(fd, unix.TCGETS)
	if s.Mode&unix.S_IFMT != unix.S_IFIFO && notTerminal != nil {
		return nil
	}
	again, err := unix.Open(procDescriptor(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	p.descriptors[0] = again
	return os.NewFile(uintptr(fd), streamName(0))
}
