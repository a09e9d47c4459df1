package resident

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
)

// A Mode says how runs share processes.
type Mode int

// These are the modes.
const (
	// Pool gives each run a process of its own, which has already started. The run has
	// the whole process to itself, so programs need not be changed for it.
	Pool Mode = iota
	// Serial runs one run at a time in a single process. The process takes over the
	// directory, umask, environment, arguments and descriptors 0, 1 and 2 of each run,
	// and gets its own back afterwards; its resource limits stay the same. What a run
	// leaves in the program's variables stays there. When the user stops a run from the
	// terminal (^Z), only its launcher stops and the run goes on, as in mode
	// Concurrent, because other runs need the process.
	Serial
	// Concurrent runs any number of runs at the same time in a single process. They may
	// use what their Invocation has, but nothing that belongs to the process: not
	// os.Args, os.Stdout, os.Getenv, os.Getwd or relative paths. Whatever ends the
	// process, such as os.Exit, log.Fatal or a panic in another goroutine, ends all its
	// runs, and their launchers exit with 125.
	//
	// When INT, TERM, HUP or QUIT arrives for a run that does not handle it, the run is
	// over for its caller. Its goroutine goes on, with its files closed.
	Concurrent
)

// String returns the name of the mode.
func (m Mode) String() string {
	switch m {
	case Pool:
		return "pool"
	case Serial:
		return "serial"
	case Concurrent:
		return "concurrent"
	}
	return "unknown"
}

// Options are the choices of a program. The zero value suits any program.
type Options struct {
	Mode Mode

	// Idle is how long the resident stays while nothing runs. 0 means ten minutes; with
	// a negative value it stays until it is told to leave.
	Idle time.Duration

	// Workers is how many processes of a pool wait for runs, 64 at most. 0 means two.
	Workers int

	// Environment names further variables that the program reads only once, when it
	// starts. A run for which one of them differs from the resident's start is run
	// plainly. A name that ends in a star stands for all names with that beginning:
	// MYAPP_*.
	Environment []string

	// SameDirectory is for a program that looks at its directory before Main, for
	// example through relative paths. Its resident then starts in that directory, too,
	// and callers in another directory run the program plainly.
	SameDirectory bool

	// EarlyInput is for a program that looks at its standard input before Main. In a
	// resident that is /dev/null, so callers with any other input run the program
	// plainly.
	EarlyInput bool

	// Watch are the paths of further files whose change ends the resident, as a change
	// of the program's own file does. Relative paths are relative to /, where residents
	// start.
	Watch []string

	// Warm prepares what all runs need, before the first one. It is called in each
	// process of a pool, in the process that runs everything in the other modes, and
	// before a plain run. If it fails, the error is logged and the process ends without
	// taking a run; a plain run writes the error to its standard error and exits with
	// 1.
	Warm func() error

	// Serve serves functions beside the commands. It may be the method Serve of a
	// server.Server. The listener accepts those connections to the resident's socket
	// that are not from a launcher. ctx ends when the resident leaves, which waits
	// until Serve has returned. In modes Pool and Serial it is called in the process
	// that supervises the others, where Warm and runs are never called.
	Serve func(ctx context.Context, listener net.Listener) error

	// Logger gets what the resident itself has to report. If it is nil, that is written
	// as text to the resident's log.
	Logger *slog.Logger
}

// check returns an error for options that no mode allows, on any system and however the
// program was started.
func (o Options) check() error {
	switch {
	case o.Mode < Pool || o.Mode > Concurrent:
		return fmt.Errorf("nearcall: resident.Options: Mode %d is none of Pool, Serial and Concurrent", o.Mode)
	case o.Workers < 0 || o.Workers > wire.ResidentWorkersCeiling:
		return fmt.Errorf("nearcall: resident.Options: Workers: %d is out of range (0 to %d)", o.Workers, wire.ResidentWorkersCeiling)
	}
	return nil
}

const (
	argumentResident = "--nearcall-resident"
	argumentPlainly  = "--no-resident"

	// exitNotStarted is the exit code of launchers that could not start a program.
	exitNotStarted = 125
)

// runFunc is the program, as given to Main.
type runFunc = func(ctx context.Context, inv *Invocation) int

// Main runs the program and never returns: it ends the process with the code that run
// returns. Main should be all that a program's function main does, because anything
// before it happens in a plain run, in the resident, and in each process of a pool.
//
// Started as usual, Main makes an Invocation of the process itself and runs that. If
// the first argument is --no-resident, Main removes it. Started by a launcher as a
// resident, which happens only on Linux, Main waits for runs and calls run for each: in
// mode Concurrent at the same time in several goroutines, otherwise one at a time in
// each process. A program that removes its first argument before it calls Main cannot
// be made resident; Main then exits with 125.
//
// ctx ends when the caller is gone (ErrCallerGone), and when INT, TERM or HUP arrives
// (a *SignalError); context.Cause tells which. Until ctx.Done or ctx.Err is used for
// the first time, these signals have their usual effect, and they have it again after
// the first of them has arrived.
//
// In a pool, if the process that supervises the run was killed, the exit code reaches
// the caller only if run returns or calls Invocation.Exit, not after os.Exit.
//
// A panic ends the run with code 2 and a trace on its standard error. In modes Serial
// and Concurrent the resident survives that, unless the panic was in another goroutine.
// In these modes SIGPIPE does not end a run: writing to an output that nobody reads any
// more fails with EPIPE, and the program decides how to end.
func Main(options Options, run func(ctx context.Context, inv *Invocation) int) {
	if err := options.check(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitNotStarted)
	}
	first := ""
	if len(os.Args) > 1 {
		first = os.Args[1]
	}
	switch {
	case first == argumentResident:
		os.Exit(reside(options, run))
	case argumentsWereTaken():
		fmt.Fprintln(os.Stderr, "nearcall: arguments were read before resident { } (main(), Main): read them inside")
		os.Exit(exitNotStarted)
	case first == argumentPlainly:
		os.Args = append(os.Args[:1:1], os.Args[2:]...)
	}
	os.Exit(runPlainly(options, run))
}
