package server_test

import (
	"context"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

func newDirect(t *testing.T) *server.Direct {
	s := newServer(t)
	s.Register("echo", func(data []byte) []byte { return data })
	s.Register("slow", func(data []byte) []byte {
		time.Sleep(2 * time.Millisecond)
		return data
	})
	s.Register("limited", func(data []byte) []byte { return data }, server.MaxConcurrency(1))
	s.Register("panic", func([]byte) []byte { panic("no") })
	s.Register("deadline", func(ctx context.Context, data []byte) ([]byte, error) {
		if deadline, bounded := ctx.Deadline(); !bounded || time.Until(deadline) <= 0 || time.Until(deadline) > testTimeout {
			return nil, status.Errorf(status.FailedPrecondition, "no deadline")
		}
		call, _ := server.CallFromContext(ctx)
		return []byte(call.Function), nil
	})
	direct, err := s.Direct()
	if err != nil {
		t.Fatal(err)
	}
	return direct
}

func runDirect(t *testing.T, d *server.Direct, name, payload string, timeout time.Duration) (reply string, code status.Code) {
	t.Helper()
	var deadlineNs uint64
	if timeout > 0 {
		clock := monotonic.New()
		deadlineNs = clock.Ns() + uint64(timeout)
	}
	run := d.Run(d.Find(name), uint8(wire.CodecRaw), []byte(payload), nil, deadlineNs)
	if run == nil {
		t.Fatalf("%s was not run directly", name)
	}
	defer run.Release()
	bytes, number, _ := run.Reply()
	return string(bytes), status.Code(number)
}

func TestDirect(t *testing.T) {
	d := newDirect(t)
	if reply, code := runDirect(t, d, "echo", "hello", 0); reply != "hello" || code != status.OK {
		t.Errorf("got %q, %v", reply, code)
	}
	if reply, code := runDirect(t, d, "deadline", "", testTimeout); reply != "deadline" || code != status.OK {
		t.Errorf("got %q, %v", reply, code)
	}
	if _, code := runDirect(t, d, "deadline", "", 0); code != status.FailedPrecondition {
		t.Errorf("without a timeout: %v", code)
	}
	if _, code := runDirect(t, d, "panic", "", 0); code != status.Internal {
		t.Errorf("a panic: %v", code)
	}
	if d.Find("none") != 0 {
		t.Error("a function that is not there was found")
	}
}

// What a caller may have to leave is not run in its goroutine.
func TestDirectLeavesToOthers(t *testing.T) {
	d := newDirect(t)
	if d.Run(d.Find("limited"), uint8(wire.CodecRaw), nil, nil, 0) != nil {
		t.Error("a function with limited concurrency was run directly")
	}
	runDirect(t, d, "slow", "", 0)
	if d.Run(d.Find("slow"), uint8(wire.CodecRaw), nil, nil, 0) != nil {
		t.Error("a function that was slow was run directly again")
	}
	d.Overran(d.Find("echo"))
	if d.Run(d.Find("echo"), uint8(wire.CodecRaw), nil, nil, 0) != nil {
		t.Error("a function that overran was run directly again")
	}
}

func TestNothingIsRegisteredAfterDirect(t *testing.T) {
	s := newServer(t)
	if _, err := s.Direct(); err != nil {
		t.Fatal(err)
	}
	if err := s.Register("late", func() int64 { return 1 }); err == nil {
		t.Error("a function was registered after the table was made")
	}
}
