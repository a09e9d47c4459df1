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

// The modes.
const (
	// Pool runs each run in a process of its own, which has started already. All of
	// a process is the run's: programs need no change for it.
	Pool Mode = iota
	// Serial runs one run at a time in one process, whose directory, umask,
	// environment, arguments and descriptors 0, 1 and 2 are set for each and set
	// back; resource limits are not. What a program leaves in its variables stays
	// there. While a run is stopped by its terminal (^Z) it goes on, as in mode
	// Concurrent: others need the process.
	Serial
	// Concurrent runs any number of runs at a time in one process. They use what
	// their Invocation has, and nothing that belongs to the process: not os.Args,
	// os.Stdout, os.Getenv, os.Getwd or relative paths. What ends the process, as
	// os.Exit, log.Fatal and panics in other goroutines do, ends all its runs, whose
	// launchers exit with 125.
	//
	// A run that knows nothing of INT, TERM, HUP or QUIT is over for its caller when
	// one arrives; its goroutine goes on, with its files closed.
	Concurrent
)

// String returns the mode's name.
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

// Options are a program's choices. The zero value is good for any program.
type Options struct {
	Mode Mode

	// Idle is how long the resident stays while nothing runs; 0: ten minutes,
	// negative: until it is told to leave.
	Idle time.Duration

	// Workers are the processes of a pool that wait, at most 64; 0: two.
	Workers int

	// Environment names more variables that a program of this kind reads only once:
	// a run for which one of them differs from the resident's start is run plainly.
	// A name that ends in a star is the beginning of names: MYAPP_*.
	Environment []string

	// SameDirectory is for a program that looks at its directory before Main, also by
	// relative paths: it is started there as a resident too, and callers in another one run
	// it plainly.
	SameDirectory bool

	// EarlyInput is for a program that asks before Main what its standard input is. There
	// it is /dev/null, and callers with another one run it plainly.
	EarlyInput bool

	// Watch are the paths of more files whose change ends the resident, as that of
	// the program's own file does. Relative ones are relative to /, where residents
	// start.
	Watch []string

	// Warm prepares what all runs need, before the first one is taken: in each
	// process of a pool, in the one that runs otherwise, and before a plain run. After
	// an error, which goes to the log, the process ends and takes nothing; a plain run
	// writes it to its standard error and ends with code 1.
	Warm func() error

	// Serve serves functions beside the commands, as the method Serve of a
	// server.Server does: the listener has those connections to the resident's
	// socket that are not a launcher's, and ctx ends when the resident leaves, which
	// waits until Serve has returned. In modes Pool and Serial it is called in the
	// process that supervises, where neither Warm nor runs are.
	Serve func(ctx context.Context, listener net.Listener) error

	// Logger gets what the resident itself has to say; nil: text, to its log.
	Logger *slog.Logger
}

// check refuses what no mode can do, on whatever system and way the program was started.
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

	// exitNotStarted is what launchers end with when they could not start a program.
	exitNotStarted = 125
)

// runFunc is the program.
type runFunc = func(ctx context.Context, inv *Invocation) int

// Main runs the program and never returns: it ends the process with the code that
// run returned. It is to be all that main does, for what comes before it happens in
// a plain run, in the resident, and in each process of a pool.
//
// Started as usual it makes an Invocation of the process itself and runs that. It
// takes --no-resident away when that is the first argument. A program that takes the
// first argument away before cannot be made resident: that ends with code 125. Started by a launcher
// as a resident (Linux only), it waits for runs and calls run for each: in mode
// Concurrent at the same time in several goroutines, otherwise one at a time in a
// process.
//
// ctx ends when the caller is gone (ErrCallerGone) and when INT, TERM or HUP arrives
// (a *SignalError); context.Cause tells which. Those signals have their usual effect
// until the first use of ctx.Done or ctx.Err, and again after the first of them.
//
// In a pool the code of a run whose supervisor was killed is only known when run
// returns or calls Invocation.Exit, not after os.Exit.
//
// A panic ends the run with code 2 and a trace on its standard error; in modes
// Serial and Concurrent the resident stays, unless it was in another goroutine. In
// these modes a write to an output that nobody reads any more fails with EPIPE, and
// SIGPIPE does not end the run: how it ends is the program's own choice.
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
