package server_test

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/nearcall/nearcall/server"
)

// TestResultsBeforeTheNextCallChangesThem: a function that runs one call at a time may return
// memory that it uses again. Its next call begins while the caller reads nothing, so that the
// sockets have not taken the result.
func TestResultsBeforeTheNextCallChangesThem(t *testing.T) {
	const resultBytes = 4 << 20 // many times what sockets take
	s, release := newServer(t), make(chan struct{})
	memory := make([]byte, resultBytes)
	var calls atomic.Int64
	register(t, s, "fill", func(with int64) []byte {
		<-release
		for i := range memory {
			memory[i] = byte(with)
		}
		calls.Add(1)
		return memory
	}, server.MaxConcurrency(1))
	register(t, s, "one", func() int64 { return 1 })
	c := connect(t, start(t, s))
	for with := range 2 {
		c.begin("fill", 0, int64(with+1))
	}
	c.call("one") // so both have been read before there is a result to wait for
	close(release)
	waitFor(t, "both calls to have run", func() bool { return calls.Load() == 2 })
	for range 2 {
		id, result, failure := c.result()
		if failure != nil {
			t.Fatal(failure)
		}
		got := result.([]byte)
		if own := bytes.Count(got, []byte{byte(id)}); own != resultBytes || len(got) != resultBytes {
			t.Errorf("of the %d bytes of result %d, %d are its own", len(got), id, own)
		}
	}
}
