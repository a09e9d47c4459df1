package server_test

import (
	"context"
	"os/signal"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/wire"
)

func signalContext() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGTERM)
}

func deadlineIn(d time.Duration) uint32 {
	now := monotonic.New().Ms()
	if d < 0 {
		return wire.DeadlineField(now-uint64(-d/time.Millisecond), 0, true)
	}
	return wire.DeadlineField(now, d, true)
}
