package resident

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"

	"github.com/nearcall/nearcall/resident/internal/request"
)

// exitPanicked is the code with which the Go runtime ends a process after a panic.
const exitPanicked = 2

// A result says how a run ended.
type result struct {
	code   int
	killed syscall.Signal // 0 if it ended by itself
}

func (r result) frame() request.Frame {
	if r.killed != 0 {
		return request.Frame{Type: request.Killed, Value: uint32(r.killed)}
	}
	return request.Frame{Type: request.Exited, Value: uint32(r.code & 0xff)}
}

// call runs the program in a goroutine of its own, in a process that lives on.
func call(ctx context.Context, run runFunc, inv *Invocation, s *session) result {
	host := &sharedHost{session: s}
	host.code.Store(exitPanicked)
	inv.host = host
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			if p := recover(); p != nil {
				_, _ = fmt.Fprintf(inv.Stderr, "panic: %v\n\n%s", p, debug.Stack())
			}
		}()
		host.code.Store(int64(run(ctx, inv)))
	}()
	<-ended
	return result{code: int(host.code.Load())}
}

// A sharedHost is the host of a run whose process lives on after it.
type sharedHost struct {
	session *session
	code    atomic.Int64
}

func (h *sharedHost) exit(code int) {
	h.code.Store(int64(code))
	runtime.Goexit()
}

func (h *sharedHost) execute(ctx context.Context, arguments []string) (int, error) {
	return h.session.execute(ctx, arguments)
}
