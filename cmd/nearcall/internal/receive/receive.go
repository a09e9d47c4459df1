// Package receive runs a program for each connection that is handed over.
package receive

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/handoff"
)

// A Style says how a program gets its connection.
type Style int

// The styles.
const (
	// Stdio: as standard input and output, as programs for inetd expect it.
	Stdio Style = iota
	// ListenFDs: as descriptor 3, with the variables of sd_listen_fds(3).
	ListenFDs
)

// A Receiver runs programs. Its fields are not changed once Serve was called.
type Receiver struct {
	Program []string // and its arguments
	Style   Style
	Max     int // programs at a time
	Logger  *slog.Logger

	places  chan struct{} // one for each program that may run
	trust   trust
	running sync.WaitGroup

	mu       sync.Mutex
	programs map[*exec.Cmd]bool // that run
}

// Serve accepts until the listener is shut down, and returns when every program
// has ended; the context's end ends only its pauses. A connection is accepted only
// when a program may run for it: until then it is its giver's, who may give it to
// another. While programs do not start, none is accepted but to try again.
func (r *Receiver) Serve(ctx context.Context, listener *handoff.Listener) error {
	r.places = make(chan struct{}, r.Max)
	r.programs = make(map[*exec.Cmd]bool)
	defer r.running.Wait()
	for {
		r.places <- struct{}{}
		r.awaitProgram(ctx)
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		r.start(ctx, conn.(*handoff.Conn))
	}
}

// awaitProgram returns when it is worth a connection to start the program.
func (r *Receiver) awaitProgram(ctx context.Context) {
	for {
		r.trust.rest(ctx)
		err := r.executable()
		if err == nil || ctx.Err() != nil {
			return
		}
		r.Logger.Error("the program cannot be started; no connection is taken", "error", err, "again_in", r.trust.fail())
	}
}

func (r *Receiver) executable() error {
	_, err := exec.LookPath(r.Program[0])
	return err
}

// start runs the program. The connection is the program's alone then, so that the
// client sees its end when the program ends.
func (r *Receiver) start(ctx context.Context, conn *handoff.Conn) {
	log := r.Logger.With("remote", remoteOf(conn), "name", conn.Meta().Name)
	program, err := r.run(conn)
	if err != nil {
		defer func() { <-r.places }()
		log.Error("the program could not be started", "error", err, "connection", giveBack(conn), "again_in", r.trust.fail())
		return
	}
	if err := conn.Close(); err != nil {
		log.Warn("the connection could not be closed here", "error", err)
	}
	log = log.With("pid", program.Process.Pid)
	log.Debug("started")
	failed := make(chan bool, 1)
	r.running.Go(func() {
		defer func() { <-r.places }()
		defer r.forget(program)
		failed <- !r.await(program, log)
	})
	if !r.trust.given() {
		r.judge(ctx, failed)
	}
}

// await waits for the end of a program, and reports whether it had started at all.
func (r *Receiver) await(program *exec.Cmd, log *slog.Logger) (started bool) {
	begun := time.Now()
	err := program.Wait()
	switch code := program.ProcessState.ExitCode(); {
	case err == nil:
		log.Debug("ended")
	case (code == codeNotExecutable || code == codeNotFound) && time.Since(begun) < startWindow:
		r.trust.lose()
		log.Error("the program could not be started; its connection is closed", "error", err)
		return false
	default:
		log.Warn("the program failed", "error", err)
	}
	return true
}

// With these, shells and env(1) tell that they could not run a program.
const (
	codeNotExecutable = 126
	codeNotFound      = 127
)

// judge waits until a program has shown whether it starts.
func (r *Receiver) judge(ctx context.Context, failed <-chan bool) {
	timer := time.NewTimer(startWindow)
	defer timer.Stop()
	select {
	case did := <-failed:
		if did {
			r.trust.fail()
			return
		}
	case <-timer.C:
	case <-ctx.Done():
	}
	r.trust.gain()
}

// handBackTimeout bounds how long a giver may take to take a connection back.
const handBackTimeout = 2 * time.Second

// giveBack lets the giver find another process; it tells what became of the
// connection. If the giver takes none back, the client sees the end.
func giveBack(conn *handoff.Conn) (became string) {
	if raw, err := conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = syscall.SetNonblock(int(fd), true) })
	}
	ctx, cancel := context.WithTimeout(context.Background(), handBackTimeout)
	defer cancel()
	err := conn.HandBack(ctx, nil)
	if err == nil {
		return "handed back"
	}
	return "closed: " + errors.Join(err, conn.CloseWrite(), conn.Close()).Error()
}

// run returns no program where it did not start.
func (r *Receiver) run(conn *handoff.Conn) (*exec.Cmd, error) {
	if err := r.executable(); err != nil {
		return nil, err // a shell between would be started
	}
	file, err := fileOf(conn)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	program := r.command(conn, file)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := program.Start(); err != nil {
		return nil, err
	}
	r.programs[program] = true
	return program, nil
}

func (r *Receiver) forget(program *exec.Cmd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.programs, program)
}

// Terminate asks the programs that run to end.
func (r *Receiver) Terminate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for program := range r.programs {
		_ = program.Process.Signal(syscall.SIGTERM)
	}
}

// fileOf returns the connection's descriptor. Programs expect one that blocks;
// os/exec makes it so, which its giver does not notice: it only closes its own.
func fileOf(conn *handoff.Conn) (*os.File, error) {
	source, ok := conn.NetConn().(interface{ File() (*os.File, error) })
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return source.File()
}

// remoteOf returns "" for a client that is gone already.
func remoteOf(conn *handoff.Conn) string {
	if address := conn.RemoteAddr(); address != nil {
		return address.String()
	}
	return ""
}
