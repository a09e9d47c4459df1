package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// interrupted is why a run ended before all was measured.
type interrupted struct{ by syscall.Signal }

func (i interrupted) Error() string { return fmt.Sprintf("ended by a signal: %s", i.by) }

// untilSignal returns a context that ends with a signal, which is its cause. It is
// noticed between rows; a second signal ends the program as if nobody had asked for the
// first. release gives signals back.
func untilSignal() (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup has its reasons
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		select {
		case by := <-signals:
			signal.Stop(signals)
			cancel(interrupted{by.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// exitCode is that of the program after err, as shells have it.
func exitCode(err error) int {
	var i interrupted
	if errors.As(err, &i) {
		return 128 + int(i.by)
	}
	if err != nil {
		return 1
	}
	return 0
}
