package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

type verb func(ctx context.Context, r *run) int

func verbs() map[string]verb {
	return map[string]verb{
		"report":  report,
		"meet":    meet,
		"say":     say,
		"copy":    copyInput,
		"take":    take,
		"yes":     yes,
		"write":   write,
		"ledger":  ledger,
		"change":  change,
		"changed": changed,
		"early":   func(_ context.Context, r *run) int { return r.printf("%s\n", early) },
		"limits":  limits,
		"files":   files,
		"exit":    exit,
		"leave":   leave,
		"panic":   func(context.Context, *run) int { panic("as it was told") },
		"deep":    deep,
		"signal":  signalSelf,
		"close":   closeOutput,
		"child":   child,
		"routine": routine,
		"wait":    wait,
		"linger":  linger,
		"size":    size,
		"line":    line,
		"raw":     raw,
		"pager":   pager,
		"execute": execute,
	}
}

// say prints its arguments.
func say(_ context.Context, r *run) int { return r.printf("%s\n", strings.Join(r.arguments, " ")) }

// changed prints the variables that the program changes before its runs.
func changed(_ context.Context, r *run) int {
	for _, name := range []string{"SET", "CHANGED", "REMOVED", "OTHER"} {
		if code := r.printf("%s,", r.getenv(name)); code != 0 {
			return code
		}
	}
	command := r.Command(context.Background(), "sh", "-c", `echo "$SET,$CHANGED,${REMOVED-none},$OTHER"`)
	if err := command.Run(); err != nil {
		return r.broken(err.Error())
	}
	return 0
}

// copyInput copies the input to the output.
func copyInput(_ context.Context, r *run) int {
	if _, err := io.Copy(r.output(), r.input()); err != nil {
		return r.broken(err.Error())
	}
	return 0
}

// take copies so many bytes and leaves the rest to others.
func take(_ context.Context, r *run) int {
	buffer := make([]byte, r.number(0))
	if _, err := io.ReadFull(r.input(), buffer); err != nil {
		return r.broken(err.Error())
	}
	return r.printf("%s", buffer)
}

// yes prints until nobody reads.
func yes(_ context.Context, r *run) int {
	for {
		if _, err := io.WriteString(r.output(), "y\n"); err != nil {
			return 1
		}
	}
}

// write prints so many bytes and fails where that fails.
func write(_ context.Context, r *run) int {
	if _, err := r.output().Write(bytes.Repeat([]byte("*"), r.number(0))); err != nil {
		return 1
	}
	return 0
}

// ledgerWork is how long a run takes that is in the ledger. Otherwise kills would seldom meet
// one.
const ledgerWork = 5 * time.Millisecond

// ledger writes down that it ran, before it says so.
func ledger(_ context.Context, r *run) int {
	if err := appendTo(r.path(r.arguments[0]), fmt.Sprintf("%s %t\n", r.arguments[1], r.Resident)); err != nil {
		return r.broken(err.Error())
	}
	time.Sleep(ledgerWork)
	if code := r.printf("%s\n", r.arguments[1]); code != 0 {
		return code
	}
	return r.number(2)
}

// limits prints what the process may have.
func limits(_ context.Context, r *run) int {
	for name, resource := range map[string]int{"core": syscall.RLIMIT_CORE, "files": syscall.RLIMIT_NOFILE, "bytes": syscall.RLIMIT_FSIZE} {
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(resource, &limit); err != nil {
			return r.broken(err.Error())
		}
		if name == r.arguments[0] {
			return r.printf("%d\n", limit.Max)
		}
	}
	return r.broken("no such limit")
}

// files prints how many the process may have open, or a command that it starts.
func files(ctx context.Context, r *run) int {
	var own syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own); err != nil {
		return r.broken(err.Error())
	}
	if r.arguments[0] == "own" {
		return r.printf("%d\n", own.Cur)
	}
	text, err := exec.CommandContext(ctx, "sh", "-c", "ulimit -Sn").Output()
	if err != nil {
		return r.broken(err.Error())
	}
	return r.printf("%s", text)
}

func exit(_ context.Context, r *run) int {
	os.Exit(r.number(0))
	return exitBroken
}

// leave ends the run from somewhere deep, as programs do that know of residents.
func leave(_ context.Context, r *run) int {
	func() { r.Exit(r.number(0)) }()
	return exitBroken
}

// deep panics where nobody can catch it but the process.
func deep(ctx context.Context, _ *run) int {
	go panic("in a goroutine")
	<-ctx.Done()
	return exitBroken
}

// signalSelf ends the process by a signal.
func signalSelf(ctx context.Context, r *run) int {
	if err := syscall.Kill(os.Getpid(), syscall.Signal(r.number(0))); err != nil {
		return r.broken(err.Error())
	}
	<-ctx.Done()
	select {}
}

func closeOutput(_ context.Context, r *run) int {
	r.printf("before\n")
	if err := r.output().Close(); err != nil {
		return r.broken(err.Error())
	}
	return 3
}

// child leaves a process behind that has the output, until a file is there.
func child(ctx context.Context, r *run) int {
	command := r.command(ctx, "sh", "-c", `while [ ! -e "$0" ]; do sleep 0.02; done; echo late`, r.arguments[0])
	if err := command.Start(); err != nil {
		return r.broken(err.Error())
	}
	return r.printf("early\n")
}

// command is of the process, where that is the run's own.
func (r *run) command(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	if !r.own() {
		return r.Command(context.WithoutCancel(ctx), name, arguments...)
	}
	command := exec.Command(name, arguments...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	return command
}

// routine leaves goroutines behind: some that wait for ever, and one that writes when
// the run has ended.
func routine(ctx context.Context, r *run) int {
	for range r.number(0) {
		go func() { select {} }()
	}
	output := r.output()
	go func() {
		<-ctx.Done()
		_, _ = io.WriteString(output, "after the end\n")
	}()
	return r.printf("routines\n")
}
