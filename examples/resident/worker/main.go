// Command worker runs a command for each request of a build by Bazel's protocol for
// persistent workers. The command is started by nearcall-run, so that what a build runs
// a thousand times is started once, whatever language it is in:
//
//	worker nearcall-run ./page html --persistent_worker
//
// It speaks protobuf, which is what Bazel uses by itself, and JSON, and knows by the
// first bytes which of the two it is spoken to in. Standard output carries responses
// and nothing else; what the command prints is in them. Without --persistent_worker it
// runs the command once, with arguments of the form @FILE replaced by the lines of the
// file, as Bazel wants it where it uses no workers.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

const (
	persistentFlag = "--persistent_worker"

	exitFailed = 1
	exitUsage  = 2
	// exitSignal and the signal's number are what a shell shows for one.
	exitSignal = 128

	// endTimeout is for a command that was told to end, and for whoever it left
	// behind with its output.
	endTimeout = 10 * time.Second
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	command := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == persistentFlag })
	if len(command) == 0 {
		fmt.Fprintln(os.Stderr, "worker COMMAND [ARGUMENT...] ["+persistentFlag+"]")
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if len(command) == len(args) {
		return runOnce(ctx, command)
	}
	command, err := anchored(command)
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return exitFailed
	}
	w := newWorker(command, os.Stdout)
	if err := w.serve(ctx, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return exitFailed
	}
	return 0
}

func runOnce(ctx context.Context, args []string) int {
	command, err := expand(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return exitFailed
	}
	process := prepare(ctx, command)
	process.Stdin, process.Stdout, process.Stderr = os.Stdin, os.Stdout, os.Stderr
	code, err := exitCode(process.Run())
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
	}
	return code
}

// prepare makes a command that gets SIGTERM when the context ends. The launcher
// passes it on to the program, and ends when the program has.
func prepare(ctx context.Context, command []string) *exec.Cmd {
	process := exec.CommandContext(ctx, command[0], command[1:]...)
	process.Cancel = func() error { return process.Process.Signal(syscall.SIGTERM) }
	process.WaitDelay = endTimeout
	return process
}

// exitCode tells how a command ended; an error is one that was not started.
func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		if err != nil {
			return exitFailed, err
		}
		return 0, nil
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}
