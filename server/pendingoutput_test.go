package server_test

import (
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
)

// TestPendingOutputUpToItsCeiling: what may be pending is more than the largest buffer
// that is lent.
func TestPendingOutputUpToItsCeiling(t *testing.T) {
	const replyBytes, calls = 1 << 20, wire.PendingOutputBytesMaxCeiling>>20 + 8
	var returned atomic.Int64
	s := newServer(t, server.WithPendingOutputBytesMax(wire.PendingOutputBytesMaxCeiling), server.WithWriteTimeout(time.Minute))
	reply := make([]byte, replyBytes)
	register(t, s, "fill", func([]byte) []byte { returned.Add(1); return reply }, server.MaxConcurrency(calls))
	c := connect(t, start(t, s))
	for id := range uint64(calls) {
		c.send(append(unfinished(id+1, "fill", 1), 0))
	}
	waitFor(t, "more than the largest buffer to be pending", func() bool {
		return returned.Load() == calls && s.Statistics().OutputBytes >= wire.PendingOutputBytesMaxCeiling
	})
	for range calls {
		header, failure := c.firstFrame()
		if failure != nil || header.Length != replyBytes {
			t.Fatalf("a reply of %d bytes, want %d: %v", header.Length, replyBytes, failure)
		}
		if _, err := io.CopyN(io.Discard, c.conn, replyBytes); err != nil {
			t.Fatal(err)
		}
	}
	wantNothingHeld(t, s, []*caller{c})
}
