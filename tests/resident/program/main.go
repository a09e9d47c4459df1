// Program is what the tests of this folder make resident. The end of its file's name is
// the way it runs: program-pool, program-serial or program-concurrent. The first
// argument is what to do; the programs in Perl and Python beside it do the same.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nearcall/nearcall/resident"
)

// version is set by the linker.
var version = "1"

// exitBroken is the code when the program itself finds something wrong.
const exitBroken = 99

// A run is one invocation with what the verbs use. In modes whose runs have a process's
// state for themselves they use that state, as programs do that know of nothing.
type run struct {
	*resident.Invocation
	mode      resident.Mode
	arguments []string // after the verb
}

func init() {
	if os.Getenv("PROGRAM_CHANGES") == "" {
		return
	}
	_ = os.Setenv("SET", "by the program")
	_ = os.Setenv("CHANGED", "more than "+os.Getenv("CHANGED"))
	_ = os.Unsetenv("REMOVED")
}

// early is what the program has looked at before its runs.
var early = lookEarly()

func lookEarly() string {
	switch os.Getenv("PROGRAM_EARLY") {
	case "variable":
		return os.Getenv("EARLY")
	case "directory":
		directory, _ := os.Getwd()
		return directory
	case "file":
		_, err := os.Stat("where")
		return fmt.Sprint(err == nil)
	case "input":
		info, err := os.Stdin.Stat()
		return fmt.Sprint(err == nil && info.Mode()&os.ModeNamedPipe != 0)
	}
	return ""
}

func main() {
	mode := map[string]resident.Mode{"pool": resident.Pool, "serial": resident.Serial, "concurrent": resident.Concurrent}[suffix()]
	options := resident.Options{Mode: mode}
	if idle, err := time.ParseDuration(os.Getenv("PROGRAM_IDLE")); err == nil {
		options.Idle = idle
	}
	switch os.Getenv("PROGRAM_EARLY") {
	case "variable":
		options.Environment = []string{"EARLY"}
	case "directory", "file":
		options.SameDirectory = true
	case "input":
		options.EarlyInput = true
	}
	startedResident()
	resident.Main(options, func(ctx context.Context, inv *resident.Invocation) int {
		return (&run{Invocation: inv, mode: mode}).do(ctx)
	})
}

// startedResident says in the log that a resident started, and counts it, or ends it where
// a test wants one that cannot be started. Processes of a pool are not meant.
func startedResident() {
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return
	}
	fmt.Fprintln(os.Stderr, "a resident starts")
	if os.Getenv("PROGRAM_STARTS") == "" {
		return
	}
	if err := appendTo(os.Getenv("PROGRAM_STARTS"), "start\n"); err != nil {
		panic(err)
	}
	if os.Getenv("PROGRAM_CRASH") != "" {
		os.Exit(1)
	}
}

func suffix() string {
	name, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return name[strings.LastIndexByte(name, '-')+1:]
}

func (r *run) do(ctx context.Context) int {
	if len(r.Args) < 2 {
		return r.broken("no verb")
	}
	verb := verbs()[r.Args[1]]
	if verb == nil {
		return r.broken("no verb " + r.Args[1])
	}
	r.arguments = r.Args[2:]
	return verb(ctx, r)
}

func (r *run) broken(what string) int {
	fmt.Fprintln(r.Stderr, "program:", what)
	return exitBroken
}

// own tells whether the state of the process is the run's own.
func (r *run) own() bool { return r.mode != resident.Concurrent }

func (r *run) input() *os.File {
	if r.own() {
		return os.Stdin
	}
	return r.Stdin
}

func (r *run) output() *os.File {
	if r.own() {
		return os.Stdout
	}
	return r.Stdout
}

// path is where a file is that a run names.
func (r *run) path(name string) string {
	if r.own() {
		return name
	}
	return r.Path(name)
}

func (r *run) getenv(name string) string {
	if r.own() {
		return os.Getenv(name)
	}
	return r.Getenv(name)
}

// number is an argument that is one.
func (r *run) number(at int) int {
	value, err := strconv.Atoi(r.arguments[at])
	if err != nil {
		panic(err)
	}
	return value
}

func (r *run) printf(format string, arguments ...any) int {
	if _, err := fmt.Fprintf(r.output(), format, arguments...); err != nil {
		fmt.Fprintln(r.Stderr, "program:", err)
		return 1
	}
	return 0
}

// appendTo writes a line to a file that several write to.
func appendTo(name, line string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(file, line); err != nil {
		return err
	}
	return file.Close()
}

// waitForFile waits until a file is there that a test makes.
func (r *run) waitForFile(ctx context.Context, name string) error {
	for ctx.Err() == nil {
		if _, err := os.Stat(filepath.Clean(r.path(name))); err == nil {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return context.Cause(ctx)
}
