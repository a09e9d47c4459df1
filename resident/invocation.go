package resident

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
)

// An Invocation is one run of the program: what its caller gave it. It is the run's
// until run returns; its files and its Root are closed then, by the resident. Its
// methods may be called by any number of goroutines of the run; its fields are not
// to be changed while others read them.
type Invocation struct {
	Args []string // with the program's name first, as in os.Args
	Env  []string // as from os.Environ
	Dir  string   // the caller's directory; empty where it has no name any more

	// The caller's own streams. A terminal there is the caller's terminal, but not
	// the controlling terminal of this process: /dev/tty cannot be opened.
	Stdin, Stdout, Stderr *os.File

	// Umask is the caller's. In mode Concurrent it is not that of the process, see
	// WithUmask.
	Umask    int
	Terminal Terminal
	Peer     Peer
	Resident bool // false in a plain run

	host    host
	signals *signals

	concurrent bool
	owned      []*os.File // what the resident closes, whatever the fields are by then
	reopened   *os.File   // what Stdin was at first, when it is not what was passed
	passed     *os.File   // that
	directory  *os.File   // nil in a plain run, where it is the process's
	rootOnce   sync.Once
	root       *os.Root
	rootErr    error
}

// Terminal is what the caller's streams are, when the run begins.
type Terminal struct {
	Rows, Columns         int  // 0: there is no terminal
	Stdin, Stdout, Stderr bool // whether it is a terminal
}

// Peer is who asked for the run, as the kernel says: the launcher's process, and
// user and group. In a plain run it is the process itself.
type Peer struct {
	PID      int
	UID, GID uint32
}

// A host is how a run reaches what is not its own.
type host interface {
	// exit ends the run and does not return.
	exit(code int)
	// execute runs a program on the caller's side.
	execute(ctx context.Context, arguments []string) (code int, err error)
}

// ErrCallerGone is the cause of a context's end when the caller's process ended.
var ErrCallerGone = errors.New("nearcall: the caller is gone")

// A SignalError is the cause of a context's end when a signal arrived.
type SignalError struct{ Signal os.Signal }

// Error names the signal.
func (e *SignalError) Error() string { return fmt.Sprintf("nearcall: signal: %v", e.Signal) }

// Getenv returns the value of the caller's variable, empty where it is not set.
func (inv *Invocation) Getenv(name string) string {
	value, _ := inv.LookupEnv(name)
	return value
}

// LookupEnv returns the value of the caller's variable, and whether it is set.
func (inv *Invocation) LookupEnv(name string) (string, bool) {
	return lookup(inv.Env, name)
}

// lookup finds the first one, as a plain run does.
func lookup(variables []string, name string) (string, bool) {
	for _, variable := range variables {
		if key, value, found := strings.Cut(variable, "="); found && key == name {
			return value, true
		}
	}
	return "", false
}

// Root returns the caller's directory as a root that no path leads out of. It is
// opened the first time, for which the directory must be readable, and closed when
// the run ends.
func (inv *Invocation) Root() (*os.Root, error) {
	inv.rootOnce.Do(func() {
		path := inv.directoryPath()
		if inv.directory != nil {
			path = inv.directory.Name() // the directory itself, not what has its name by now
		}
		inv.root, inv.rootErr = os.OpenRoot(path)
	})
	return inv.root, inv.rootErr
}

// Signals returns the signals that the caller's process gets and passes on: HUP,
// INT, QUIT, USR1, USR2, TERM, CONT and WINCH. From the first call on they have no
// other effect but that INT, TERM and HUP end a context that is in use. Those that nobody
// receives are dropped when 16 wait. TSTP is none of them: in a pool and
// in a plain run it stops the run, otherwise only its launcher.
func (inv *Invocation) Signals() <-chan os.Signal { return inv.signals.channel() }

// Exit ends the run with a code between 0 and 255, from any depth, in the run's own
// goroutine. It does not return. In modes Serial and Concurrent deferred functions
// run and the process stays; in a pool and in a plain run it is os.Exit.
func (inv *Invocation) Exit(code int) { inv.host.exit(code) }

// Execute runs a program on the caller's side, with the caller's terminal,
// directory and environment: an editor, a pager, sudo. It returns when that has
// ended: its exit code, or 128 and the number of the signal that ended it, as
// shells count; 127 when there is no such program, 126 when it cannot be run. The
// first argument is the program, a path or a name in PATH.
//
// When ctx ends before, Execute returns its error and the program goes on. One
// program runs at a time; others wait.
func (inv *Invocation) Execute(ctx context.Context, arguments ...string) (code int, err error) {
	if len(arguments) == 0 {
		return 0, errors.New("nearcall: Execute needs the name of a program")
	}
	return inv.host.execute(ctx, arguments)
}
