package resident

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
)

// An Invocation is one run of the program, with all that the caller has given to it. It
// belongs to the run until run returns; the resident then closes its files and its
// Root. Its methods may be called from any number of goroutines of the run. Its fields
// must not be changed while others read them.
type Invocation struct {
	Args []string // the program's name comes first, as in os.Args
	Env  []string // in the form of os.Environ
	Dir  string   // the caller's directory; empty if it has no name any more

	// The streams of the caller. If one is a terminal it is the caller's terminal, but
	// not the controlling terminal of this process: /dev/tty cannot be opened.
	Stdin, Stdout, Stderr *os.File

	// Umask is the umask of the caller. In mode Concurrent the process has another one;
	// see WithUmask.
	Umask    int
	Terminal Terminal
	Peer     Peer
	Resident bool // false in a plain run

	host    host
	signals *signals

	concurrent bool
	owned      []*os.File // what the resident closes, whatever the fields hold by then
	reopened   *os.File   // what Stdin was at first, if it was reopened
	passed     *os.File   // what was passed, if Stdin was reopened
	directory  *os.File   // nil in a plain run, which is in the process's directory
	rootOnce   sync.Once
	root       *os.Root
	rootErr    error
}

// Terminal describes the caller's streams as they are when the run begins.
type Terminal struct {
	Rows, Columns         int  // 0 if there is no terminal
	Stdin, Stdout, Stderr bool // whether each is a terminal
}

// A Peer is the process that asked for the run, as the kernel reports it: the launcher's, with
// its user and group. In a plain run it is the process itself.
type Peer struct {
	ProcessID int32
	UserID    uint32
	GroupID   uint32
}

// A host is how a run reaches what does not belong to it.
type host interface {
	// exit ends the run and does not return.
	exit(code int)
	// execute runs a program on the caller's side.
	execute(ctx context.Context, arguments []string) (code int, err error)
}

// ErrCallerGone is the cause of a context that ended because the caller's process has
// ended.
var ErrCallerGone = errors.New("nearcall: the caller is gone")

// A SignalError is the cause of a context that ended because a signal has arrived.
type SignalError struct{ Signal os.Signal }

// Error names the signal.
func (e *SignalError) Error() string { return fmt.Sprintf("nearcall: signal: %v", e.Signal) }

// Getenv returns the value of a variable in the caller's environment, or "" if it is
// not set.
func (inv *Invocation) Getenv(name string) string {
	value, _ := inv.LookupEnv(name)
	return value
}

// LookupEnv returns the value of a variable in the caller's environment, and whether it
// is set.
func (inv *Invocation) LookupEnv(name string) (string, bool) {
	return lookup(inv.Env, name)
}

// lookup finds the first variable with a name, as a plain run does.
func lookup(variables []string, name string) (string, bool) {
	for _, variable := range variables {
		if key, value, found := strings.Cut(variable, "="); found && key == name {
			return value, true
		}
	}
	return "", false
}

// Root returns the caller's directory as an os.Root, which no path can leave. The first
// call opens it, for which the directory must be readable. It is closed when the run
// ends.
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

// Signals returns a channel for the signals that the caller's process receives and
// passes on: HUP, INT, QUIT, USR1, USR2, TERM, CONT and WINCH. From the first call on
// they have no other effect, except that INT, TERM and HUP still end a context that is
// in use. If nobody receives them, 16 signals wait and further ones are dropped. TSTP
// is not among them: in a pool and in a plain run it stops the run, in the other modes
// only the launcher.
func (inv *Invocation) Signals() <-chan os.Signal { return inv.signals.channel() }

// Exit ends the run with a code between 0 and 255. It may be called anywhere in the
// run's own goroutine and does not return. In modes Serial and Concurrent deferred
// functions run and the process lives on; in a pool and in a plain run it is os.Exit.
func (inv *Invocation) Exit(code int) { inv.host.exit(code) }

// Execute runs a program on the caller's side, with the caller's terminal, directory
// and environment, for example an editor, a pager, or sudo. The first argument is the
// program, as a path or as a name to be found in PATH. Execute waits until the program
// ends and returns its exit code. As in a shell, the code is 128 and the number of the
// signal if a signal has ended the program, 127 if there is no such program, and 126 if
// it cannot be run.
//
// If ctx ends first, Execute returns its error and the program goes on. Only one
// program runs at a time; further calls wait.
func (inv *Invocation) Execute(ctx context.Context, arguments ...string) (code int, err error) {
	if len(arguments) == 0 {
		return 0, errors.New("nearcall: Execute needs the name of a program")
	}
	return inv.host.execute(ctx, arguments)
}
