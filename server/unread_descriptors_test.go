package server_test

import (
	"os"
	"testing"
	"time"

	"github.com/nearcall/nearcall/server"
)

// TestUnreadRepliesWithFilesAreBounded: replies that carry files count as others do, while they
// are written and while they wait for room; what is counted is what is held.
func TestUnreadRepliesWithFilesAreBounded(t *testing.T) {
	const room, replyBytes, callers = 32 << 20, 2 << 20, 40
	// What a connection has besides, and the reply that each function has made but not encoded.
	const notCounted = callers*notCountedEach + 8*replyBytes
	s := fileServer(t, server.WithOutputBytes(1<<30, room), server.WithWriteTimeout(testTimeout))
	data := make([]byte, replyBytes)
	register(t, s, "open_large", func() (*os.File, []byte, error) {
		file, err := os.Open(os.DevNull)
		return file, data, err
	}, server.MaxConcurrency(callers))
	path := start(t, s)
	opened, before := openDescriptors(t), heapBytes(s)
	var all []*caller
	for range callers {
		all = append(all, connectWithFiles(t, path))
		all[len(all)-1].begin("open_large", 0)
	}
	waitFor(t, "the room to be taken", func() bool { return s.Statistics().OutputBytes > room-2*replyBytes })
	// In this order: the last of them may still be on their way, and are counted before they are held.
	held := heapBytes(s) - before
	counted := s.Statistics().OutputBytes
	t.Logf("%d bytes are counted, %d are held", counted, held)
	if counted > room || held > counted+notCounted {
		t.Errorf("%d bytes are held and %d counted of at most %d", held, counted, room)
	}
	wantNothingHeld(t, s, all)
	wantNoneLeft(t, opened)
}

// TestUnreadFilesEndTheConnection: an answer with files that nobody reads is given up in
// time, also if the connection has written nothing else since its welcome.
func TestUnreadFilesEndTheConnection(t *testing.T) {
	s := fileServer(t, server.WithWriteTimeout(100*time.Millisecond))
	register(t, s, "open_large", func() (*os.File, []byte, error) {
		file, err := os.Open(os.DevNull)
		return file, make([]byte, 1<<20), err
	})
	c := connectWithFiles(t, start(t, s))
	c.begin("open_large", 0)
	waitFor(t, "the connection to be given up", func() bool { return s.Statistics().Connections == 0 })
}
