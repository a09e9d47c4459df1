package handoff_test

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/nearcall/nearcall/handoff"
	"github.com/nearcall/nearcall/handoff/internal/frame"
	"github.com/nearcall/nearcall/internal/rights/rightstest"
)

// Givers that send sockets which linger hold up no thread each, and not the end of the
// Listener, though the closing of each takes a minute.
func TestTrapsHoldUpNothing(t *testing.T) {
	const channels, trapsEach, threadsMore, atMost = 40, 3, 24, 20 * time.Second
	l, address := listen(t, handoff.WithLogger(slog.New(slog.DiscardHandler)))
	trapper := rightstest.NewTrapper(t)
	before, begun := threads(t), time.Now()
	for range channels {
		a := attack(t, address)
		for range trapsEach {
			// The Listener may have ended the channel by then.
			_ = trapper.LeaveTo(a.socket, make([]byte, frame.HeaderBytes))
		}
		must(t, a.socket.SetReadDeadline(time.Now().Add(atMost)))
		if _, err := io.Copy(io.Discard, a.socket); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("the Listener has not ended a channel within %v", atMost)
		}
	}
	if more := threads(t) - before; more > threadsMore {
		t.Errorf("%d more threads after %d channels", more, channels)
	}
	must(t, l.Close())
	if took := time.Since(begun); took > atMost {
		t.Errorf("%d channels took %v", channels, took)
	}
}

func threads(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/task")
	must(t, err)
	return len(entries)
}
