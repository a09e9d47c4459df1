// Package receive runs a program for each connection that is handed over.
package receive

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"

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
	running sync.WaitGroup

	mu       sync.Mutex
	programs map[*exec.Cmd]bool // that run
}

// Serve accepts until the listener is shut down, and returns when every program
// has ended. A connection is accepted only when a program may run for it: until
// then it is its giver's, who may give it to another.
func (r *Receiver) Serve(listener *handoff.Listener) error {
	r.places = make(chan struct{}, r.Max)
	r.programs = make(map[*exec.Cmd]bool)
	defer r.running.Wait()
	for {
		r.places <- struct{}{}
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		r.start(conn.(*handoff.Conn))
	}
}

// start runs the program. The connection is the program's alone then, so that the
// client sees its end when the program ends.
func (r *Receiver) start(conn *handoff.Conn) {
	log := r.Logger.With("remote", remoteOf(conn), "name", conn.Meta().Name)
	program, err := r.run(conn)
	err = errors.Join(err, conn.Close())
	if err != nil {
		log.Error("the program could not be started; its connection is closed", "error", err)
	}
	if program == nil {
		<-r.places
		return
	}
	log = log.With("pid", program.Process.Pid)
	log.Debug("started")
	r.running.Go(func() {
		defer func() { <-r.places }()
		defer r.forget(program)
		if err := program.Wait(); err != nil {
			log.Warn("the program failed", "error", err)
			return
		}
		log.Debug("ended")
	})
}

// run returns no program where it did not start.
func (r *Receiver) run(conn *handoff.Conn) (*exec.Cmd, error) {
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
