package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// grace is what a part has to end by itself when it was told to.
const grace = 5 * time.Second

// A result is what became of a part.
type result struct {
	part    string
	verdict string
	took    time.Duration
	used    time.Duration // of processors, by what the part has waited for
}

const verdictPassed = "passed"

func (r result) passed() bool { return r.verdict == verdictPassed }

// String is a row of the table.
func (r result) String() string {
	return fmt.Sprintf("%-18s %-6s %7s, %7s of CPU", r.part, r.verdict, seconds(r.took), seconds(r.used))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) }

// makePart makes a part to its end, or ends it at its bound or the context's. Nothing
// that it has started is left.
func (r *runner) makePart(ctx context.Context, part string) (got result) {
	got = result{part: part, verdict: "FAILED"}
	log, err := os.Create(r.log(part))
	if err != nil {
		r.say("    %s\n", err)
		return got
	}
	defer log.Close()
	mark := fmt.Sprintf("NEARCALL_PART=%s.%d", part, os.Getpid())
	// The log is a file, not a pipe, which what is left running would hold open.
	command := exec.Command(r.make, "--no-print-directory", part)
	command.Stdout, command.Stderr = log, log
	command.Env = append(append(os.Environ(), r.environment...), mark)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	began := time.Now()
	if err := command.Start(); err != nil {
		fmt.Fprintln(log, err)
		return got
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	err, hung := r.await(ctx, log, command.Process.Pid, mark, ended)
	killMarked(log, mark)
	got.took = time.Since(began)
	got.used = command.ProcessState.UserTime() + command.ProcessState.SystemTime()
	switch {
	case hung:
		got.verdict = "HUNG"
	case ctx.Err() != nil:
		got.verdict = "ended"
	case err == nil:
		got.verdict = verdictPassed
	default:
		fmt.Fprintln(log, part+":", err)
	}
	return got
}

// await returns when the part has ended, by itself or because it had to.
func (r *runner) await(ctx context.Context, log io.Writer, group int, mark string, ended <-chan error) (err error, hung bool) {
	bound := time.NewTimer(r.bound)
	defer bound.Stop()
	select {
	case err := <-ended:
		return err, false
	case <-ctx.Done():
	case <-bound.C:
		hung = true
		fmt.Fprintf(log, "FAILED: not over after %s, and is ended; it consisted of\n", r.bound)
		for _, p := range marked(mark) {
			fmt.Fprintln(log, "   ", p)
		}
	}
	_ = syscall.Kill(-group, syscall.SIGTERM)
	select {
	case err = <-ended:
	case <-time.After(grace):
		_ = syscall.Kill(-group, syscall.SIGKILL)
		err = <-ended
	}
	return err, hung
}
