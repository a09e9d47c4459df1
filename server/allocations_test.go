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
	s := newServer(t)
	register(t, s, "echo", func(data []byte) []byte { return data })
	register(t, s, "add", func(a, b int64) int64 { return a + b })
	register(t, s, "add_in_context", func(_ context.Context, a, b int64) (int64, error) { return a + b, nil })
	path := start(t, s)
	for name, request := range map[string]wire.Frame{
		"echo":           {Header: wire.Header{Type: wire.Request, Codec: wire.CodecRaw, FunctionID: 1}, Payload: make([]byte, 64)},
		"add":            {Header: wire.Header{Type: wire.Request, Codec: wire.CodecMessagePack, FunctionID: 2}, Payload: arguments(t, int64(3), int64(4))},
		"add_in_context": {Header: wire.Header{Type: wire.Request, Codec: wire.CodecMessagePack, FunctionID: 3}, Payload: arguments(t, int64(3), int64(4))},
	} {
		c := connect(t, path)
		file, err := c.conn.File()
		if err != nil {
			t.Fatal(err)
		}
		fd := int(file.Fd()) // blocking from here on: the caller needs no poller
		frame, reply := request.Append(nil), make([]byte, 4096)
		call := func() {
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
		}
		if allocations := testing.AllocsPerRun(5000, call); allocations > 0 {
			t.Errorf("%s: %v allocations per call, want 0", name, allocations)
		}
		file.Close()
	}
}

func arguments(t testing.TB, values ...any) []byte {
	t.Helper()
	payload, err := codec.AppendValue(nil, values)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}
