package residentcheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A Run is one of those that are compared.
type Run struct {
	Name         string `json:"name"`
	ExitCode     int    `json:"exit_code"` // -1: a signal ended it
	Signal       string `json:"signal,omitempty"`
	Milliseconds int64  `json:"milliseconds"`
	// Plainly is why a run that was to be a resident's was none, as its launcher said.
	Plainly string `json:"plainly,omitempty"`

	output, errors string
	files          map[string]string // what it has left other than it was
}

// The names of runs.
const (
	runPlain    = "plain"
	runAgain    = "plain, again"
	runStart    = "resident, at its start"
	runResident = "resident"
	runOther    = "resident that another caller has started"
)

// pipeTimeout bounds how long a pipe is waited for that what a run has left behind holds.
const pipeTimeout = 5 * time.Second

// writtenBytesMax is how much a run may write to each of its streams, as all of it is held to be
// compared.
const writtenBytesMax = 64 << 20

var errWrittenTooMuch = fmt.Errorf("it wrote more than %d MiB", writtenBytesMax>>20)

// A written is what a run writes to a stream. It gives the run up where that is too much.
type written struct {
	text   bytes.Buffer
	giveUp context.CancelCauseFunc
}

func (w *written) Write(text []byte) (int, error) {
	if w.text.Len()+len(text) > writtenBytesMax {
		w.giveUp(errWrittenTooMuch)
		return 0, errWrittenTooMuch
	}
	return w.text.Write(text)
}

// A runner runs one command after the other in the same place.
type runner struct {
	setting   Setting
	work      *copied
	home      *copied // nil: the user's own
	temporary string
}

// run puts the directory back to what it was, and runs a command in it.
func (r *runner) run(ctx context.Context, name string, command, environment []string) (*Run, error) {
	for _, c := range r.copies() {
		if err := c.putBack(); err != nil {
			return nil, err
		}
	}
	directory := filepath.Join(r.work.path, r.setting.Within)
	result, err := r.runIn(ctx, name, command, directory, append(environment, "PWD="+directory), r.setting.Input)
	if err != nil {
		return nil, err
	}
	result.files = map[string]string{}
	for prefix, c := range r.copies() {
		changed, err := c.changes()
		if err != nil {
			return nil, err
		}
		for path, now := range maps.All(changed) {
			result.files[filepath.Join(prefix, path)] = now
		}
	}
	return result, nil
}

// copies are by what the names of files in them begin with.
func (r *runner) copies() map[string]*copied {
	copies := map[string]*copied{"": r.work}
	if r.home != nil {
		copies["~"] = r.home
	}
	return copies
}

func (r *runner) runIn(ctx context.Context, name string, command []string, directory string, environment []string, input Input) (*Run, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	ctx, cancel := context.WithTimeoutCause(ctx, r.setting.RunTimeout, fmt.Errorf("it did not end in %v: --timeout is how long it may take", r.setting.RunTimeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = directory, environment, inItsOwnSession()
	cmd.Cancel = func() error { killGroup(cmd.Process.Pid); return nil }
	cmd.WaitDelay = pipeTimeout
	// Pipes, which a resident has not before its runs.
	output, failures := written{giveUp: giveUp}, written{giveUp: giveUp}
	cmd.Stdout, cmd.Stderr = &output, &failures
	done, err := input.give(cmd)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	err = cmd.Run()
	took := time.Since(began)
	done()
	if why := context.Cause(ctx); why != nil {
		return nil, fmt.Errorf("the run %q was given up, with %q: %w", name, lastLine(failures.text.String()), why)
	}
	return result(name, cmd, err, took, output.text.String(), failures.text.String())
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func result(name string, cmd *exec.Cmd, err error, took time.Duration, output, failures string) (*Run, error) {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return nil, err
	}
	r := &Run{Name: name, ExitCode: cmd.ProcessState.ExitCode(), Milliseconds: took.Milliseconds(), output: output}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		r.Signal = status.Signal().String()
	}
	r.errors, r.Plainly = withoutReason(failures)
	return r, nil
}

// withoutReason takes away what the launcher said itself. The log that it names is not in the
// reason: it is gone when the check has ended, and residents.said has what matters of it.
func withoutReason(text string) (rest, reason string) {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if said, is := strings.CutPrefix(line, "nearcall-run: "); is && reason == "" {
			if _, why, found := strings.Cut(said, " runs plainly: "); found {
				reason, _, _ = strings.Cut(strings.TrimSpace(why), "; see ")
				continue
			}
		}
		kept.WriteString(line)
	}
	return kept.String(), reason
}

// An Input is what runs have as their standard input: nothing, a file, or a pipe.
type Input struct {
	Path string // "": /dev/null
	Pipe bool   // what the file holds comes through a pipe
}

// give lets a command have it; done is called when the command has ended.
func (i Input) give(cmd *exec.Cmd) (done func(), err error) {
	done = func() {}
	if i.Path == "" {
		return done, nil
	}
	if i.Pipe {
		text, err := os.ReadFile(i.Path)
		cmd.Stdin = bytes.NewReader(text)
		return done, err
	}
	file, err := os.Open(i.Path)
	if err != nil {
		return done, err
	}
	cmd.Stdin = file
	return func() { _ = file.Close() }, nil
}
