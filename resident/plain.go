package resident

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"sync"
)

// runPlainly runs the program as if there were no residents.
func runPlainly(o Options, run runFunc) int {
	if o.Warm != nil {
		if err := o.Warm(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
			return 1
		}
	}
	caught, ctx := newSignals(context.Background(), true)
	directory, _ := os.Getwd() // empty if it has no name
	inv := &Invocation{
		Args: os.Args, Env: os.Environ(), Dir: directory,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Umask: processUmask(),
		Peer:  Peer{ProcessID: int32(os.Getpid()), UserID: uint32(os.Geteuid()), GroupID: uint32(os.Getegid())},
	}
	inv.signals, inv.host = caught, &plainHost{inv: inv}
	inv.Terminal = terminalOf(inv)
	return run(ctx, inv)
}

// A plainHost is the host of a plain run, which is the process itself.
type plainHost struct {
	inv       *Invocation
	executing sync.Mutex
}

func (*plainHost) exit(code int) { os.Exit(code) }

// execute leaves the program running when ctx ends, as a launcher does.
func (h *plainHost) execute(ctx context.Context, arguments []string) (int, error) {
	type result struct {
		code int
		err  error
	}
	ended := make(chan result, 1)
	command := h.inv.Command(context.Background(), arguments[0], arguments[1:]...)
	go func() {
		h.executing.Lock()
		defer h.executing.Unlock()
		err := command.Run()
		var failed *exec.ExitError
		if err == nil || errors.As(err, &failed) {
			ended <- result{code: codeOf(command.ProcessState)}
			return
		}
		code, err := neverRan(err)
		ended <- result{code, err}
	}()
	select {
	case r := <-ended:
		return r.code, r.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// neverRan returns the code with which launchers and shells say that there is no such
// program, or that it cannot be run.
func neverRan(err error) (int, error) {
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return notFoundCode, nil
	case errors.Is(err, fs.ErrPermission):
		return notExecutableCode, nil
	}
	return 0, err
}

// The exit codes of shells for programs that do not exist, and for those that cannot be
// run.
const (
	notExecutableCode = 126
	notFoundCode      = 127
)

func terminalOf(inv *Invocation) Terminal {
	t := Terminal{}
	for _, stream := range []struct {
		file  *os.File
		found *bool
	}{{inv.Stdin, &t.Stdin}, {inv.Stdout, &t.Stdout}, {inv.Stderr, &t.Stderr}} {
		rows, columns, is := terminalSize(stream.file)
		if *stream.found = is; is {
			t.Rows, t.Columns = rows, columns
		}
	}
	return t
}
