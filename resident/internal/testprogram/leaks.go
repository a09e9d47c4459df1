package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/nearcall/nearcall/resident"
)

// quiet fails when its input has ended, and writes nothing.
func quiet(_ context.Context, inv *resident.Invocation) int {
	_, _ = io.Copy(io.Discard, inv.Stdin)
	return 3
}

// writeAt writes at the beginning of its output.
func writeAt(_ context.Context, inv *resident.Invocation) int {
	if _, err := inv.Stdout.WriteAt([]byte("first"), 0); err != nil {
		_, _ = fmt.Fprintln(inv.Stderr, err)
		return 1
	}
	return 0
}

// ignoreAll ignores signals and leaves it at that.
func ignoreAll(context.Context, *resident.Invocation) int {
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM)
	return 0
}

// late leaves a goroutine behind that asks for signals when the run is over, and makes
// a file then.
func late(ctx context.Context, inv *resident.Invocation) int {
	made := inv.Args[2]
	go func() {
		for {
			if _, err := inv.Stderr.WriteString("."); err != nil {
				break
			}
		}
		done, received := ctx.Done(), inv.Signals()
		_ = os.WriteFile(made, nil, 0o600)
		<-done
		<-received
	}()
	return 0
}

// limit lets files be no larger than its argument says, softly or for good.
func limit(_ context.Context, inv *resident.Invocation) int {
	var l syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l)
	if l.Cur = uint64(number(inv)); inv.Args[2] == "hard" {
		l.Max = l.Cur
	}
	if err = errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l)); err != nil {
		_, _ = fmt.Fprintln(inv.Stderr, err)
		return 1
	}
	return 0
}

// chdir goes to another directory, which in mode Concurrent is not to be done.
func chdir(_ context.Context, inv *resident.Invocation) int {
	if err := os.Chdir(inv.Args[2]); err != nil {
		return 1
	}
	return 0
}
