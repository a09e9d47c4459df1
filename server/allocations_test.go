package server_test

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/wire"
)

// TestCallsDoNotAllocate counts what the whole process allocates while a caller
// that itself allocates nothing calls over a real socket.
func TestCallsDoNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	for name, request := range map[string]wire.Frame{
		"echo":           {Header: wire.Header{Type: wire.Request, Codec: wire.CodecRaw, FunctionID: 1}, Payload: make([]byte, 64)},
		"add":            {Header: wire.Header{Type: wire.Request, Codec: wire.CodecMessagePack, FunctionID: 2}, Payload: arguments(t, int64(3), int64(4))},
		"add_in_context": {Header: wire.Header{Type: wire.Request, Codec: wire.CodecMessagePack, FunctionID: 3}, Payload: arguments(t, int64(3), int64(4))},
	} {
		// On a busy machine a call may take long enough for its function to count as slow, and to run in a goroutine of
		// its own from then on. Only calls that always allocate fail with each of several servers.
		var allocations float64
		for range 5 {
			if allocations = allocationsOf(t, request); allocations == 0 {
				break
			}
		}
		if allocations > 0 {
			t.Errorf("%s: %v allocations per call, want 0", name, allocations)
		}
	}
}

// allocationsOf returns how many allocations a call makes in a new server.
func allocationsOf(t *testing.T, request wire.Frame) float64 {
	t.Helper()
	s := newServer(t)
	register(t, s, "echo", func(data []byte) []byte { return data })
	register(t, s, "add", func(a, b int64) int64 { return a + b })
	register(t, s, "add_in_context", func(_ context.Context, a, b int64) (int64, error) { return a + b, nil })
	c := connect(t, start(t, s))
	fd := blocking(t, c)
	frame, reply := request.Append(nil), make([]byte, 4096)
	return testing.AllocsPerRun(5000, func() {
		c.lastID++
		request.CallID = c.lastID
		request.Length = uint32(len(request.Payload))
		request.Put(frame)
		if _, err := unix.Write(fd, frame); err != nil {
			t.Fatal(err)
		}
		n, err := unix.Read(fd, reply)
		if err != nil || wire.ParseHeader(reply[:n]).Type != wire.Reply {
			t.Fatalf("no reply: %v", err)
		}
	})
}

// blocking returns the descriptor of a caller that needs no poller from here on.
func blocking(t *testing.T, c *caller) int {
	t.Helper()
	file, err := c.conn.File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return int(file.Fd())
}

// TestSimpleCallsDoNotAllocate counts the same of callers of the simple protocol.
func TestSimpleCallsDoNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	for _, request := range []string{`{"f":"echo","a":["AAECAwQFBgcICQoLDA0ODw=="]}`, ` { "f": "add", "a": [3, -4], "t": 1000 }`, `{"f":"one"}`} {
		var allocations float64
		for range 5 { // as above
			if allocations = simpleAllocationsOf(t, request); allocations == 0 {
				break
			}
		}
		if allocations > 0 {
			t.Errorf("%s: %v allocations per call, want 0", request, allocations)
		}
	}
}

func simpleAllocationsOf(t *testing.T, request string) float64 {
	t.Helper()
	s := newServer(t)
	register(t, s, "echo", func(data []byte) []byte { return data })
	register(t, s, "add", func(a, b int64) int64 { return a + b })
	register(t, s, "one", func() int64 { return 1 })
	fd, message, answer := blocking(t, dial(t, start(t, s))), simpleRequest(request), make([]byte, 4096)
	return testing.AllocsPerRun(5000, func() {
		if _, err := unix.Write(fd, message); err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Read(fd, answer); err != nil || n < 10 || string(answer[4:14]) != `{"ok":true` {
			t.Fatalf("%q: %v", answer[:max(n, 0)], err)
		}
	})
}

func arguments(t testing.TB, values ...any) []byte {
	t.Helper()
	payload, err := codec.AppendValue(nil, values)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}
