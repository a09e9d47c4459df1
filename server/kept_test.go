package server_test

import (
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/nearcall/nearcall/server"
)

// What these callers ask for and do not read is more than what sockets take, and a little more
// than a buffer that is half as large as the next one.
const (
	pieceBytes  = 16_000
	pieces      = 100
	pieceHolder = 40
	// What a connection has besides, and what the collector has not found yet.
	notCountedEach = 256 << 10
)

// TestRepliesAreCountedAsTheyAreHeld: the buffers that replies wait in count, and not only the
// bytes in them.
func TestRepliesAreCountedAsTheyAreHeld(t *testing.T) {
	s := newServer(t, server.WithWriteTimeout(testTimeout), server.WithPendingOutputBytesMax(4<<20))
	reply := make([]byte, pieceBytes)
	register(t, s, "piece", func([]byte) []byte { return reply }, server.Apart())
	callers := connectMany(t, start(t, s), pieceHolder)
	before := heapBytes(s)
	var requests []byte
	for id := range pieces {
		requests = append(append(requests, unfinished(uint64(id+1), "piece", 1)...), 0)
	}
	sendAll(callers, requests)
	waitFor(t, "all to be answered", func() bool {
		return s.Statistics().Functions["piece"].Calls == pieces*pieceHolder
	})
	// In this order: the last of them may still be on their way, and are counted before they are held.
	held := heapBytes(s) - before
	counted := s.Statistics().OutputBytes
	t.Logf("%d bytes are counted, %d are held", counted, held)
	if held > counted+pieceHolder*notCountedEach {
		t.Errorf("%d bytes are held for replies that wait, and %d are counted", held, counted)
	}
	wantNothingHeld(t, s, callers)
}

// TestLargeReplyHasRoom: a reply for which its user has room comes, though there is none for
// the buffer that is lent for so much while another one is written.
func TestLargeReplyHasRoom(t *testing.T) {
	const room, first, second = 3 << 20, 512 << 10, 2_200_000
	s := newServer(t, server.WithOutputBytes(1<<30, room), server.WithFrameBytesMax(2<<20), server.WithWriteTimeout(time.Second))
	register(t, s, "first", func([]byte) []byte { return make([]byte, first) }, server.Apart())
	register(t, s, "second", func([]byte) []byte { return make([]byte, second) }, server.Apart())
	c := connect(t, start(t, s))
	c.send(append(unfinished(1, "first", 1), 0))
	header, _ := c.firstFrame() // so it is being written
	c.send(append(unfinished(2, "second", 1), 0))
	waitFor(t, "the second to be called", func() bool { return s.Statistics().Functions["second"].Calls == 1 })
	if _, err := io.CopyN(io.Discard, c.conn, int64(header.Length)); err != nil {
		t.Fatal(err)
	}
	if header, failure := c.firstFrame(); failure != nil || header.Length != second {
		t.Errorf("a reply of %d bytes, want %d: %v", header.Length, second, failure)
	}
}

// heapBytes is what is left when the pools are empty.
func heapBytes(s *server.Server) int64 {
	for range 3 {
		runtime.GC()
	}
	return int64(s.Statistics().HeapBytes)
}
