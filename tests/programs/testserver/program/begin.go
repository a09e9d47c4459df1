package program

import (
	"context"
	"sync"
	"time"

	"github.com/nearcall/nearcall/server"
)

// starts tells callers on other connections that a function runs. Keys are never forgotten:
// a caller draws a new one for every call.
type starts struct {
	mu   sync.Mutex
	keys map[string]*start
}

// A start is that of one call.
type start struct {
	once    sync.Once // because hostile callers use a key again
	started chan struct{}
}

// registerStarts registers functions for tests that need a call that certainly was started.
func registerStarts(s *server.Server) {
	all := &starts{keys: map[string]*start{}}
	s.Register("begin", all.begin, server.Params("key", "duration_ms"),
		server.Doc("Waits for that long, or until it is cancelled; begun(key) returns from now on."))
	s.Register("begin_stubborn", func(key []byte, durationMs int64) {
		all.begin(context.Background(), key, durationMs)
	}, server.Params("key", "duration_ms"), server.Doc("Like begin, but is not cancelled."))
	s.Register("begun", all.begun, server.Params("key"), server.Doc("Returns when begin(key) was called."))
}

func (s *starts) of(key []byte) *start {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.keys[string(key)]
	if of == nil {
		of = &start{started: make(chan struct{})}
		s.keys[string(key)] = of
	}
	return of
}

func (s *starts) begin(ctx context.Context, key []byte, durationMs int64) {
	of := s.of(key)
	of.once.Do(func() { close(of.started) })
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(durationMs) * time.Millisecond):
	}
}

func (s *starts) begun(ctx context.Context, key []byte) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.of(key).started:
		return nil
	}
}
