package server_test

import (
	"context"
	"testing"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
)

// TestMetadataThatNobodyAsksFor take about as much as they took on their way, while calls wait: no map is made of them.
func TestMetadataThatNobodyAsksFor(t *testing.T) {
	const calls, pairs = 1000, 500
	s, g := newServer(t), newGate()
	register(t, s, "wait", func(context.Context) { g.wait() }, server.MaxConcurrency(1))
	register(t, s, "last", func() int64 { return 1 })
	c := connect(t, start(t, s))
	extensions := wire.AppendExtension(nil, wire.ExtensionFunctionName, "wait")
	for i := range pairs {
		extensions = wire.AppendExtension(extensions, wire.ExtensionMetadata, string([]byte{'a' + byte(i%26), 'a' + byte(i/26), 0}))
	}
	var sent []byte
	for range calls {
		c.lastID++
		frame := wire.Frame{Header: wire.Header{Type: wire.Request, Codec: wire.CodecMessagePack, CallID: c.lastID}, Extensions: extensions, Payload: argumentsOf(t)}
		sent = frame.Append(sent)
	}
	before := heapBytes(s)
	c.send(sent)
	<-g.started
	c.begin("last", 0) // is answered when all before it have been taken
	if _, value, failure := c.result(); value != int64(1) {
		t.Fatal(value, failure)
	}
	if took, came := heapBytes(s)-before, int64(len(sent)); took > 3*came {
		t.Errorf("%d calls with metadata take %d bytes, and came in %d", calls, took, came)
	}
	close(g.release)
	for range calls {
		if _, _, failure := c.result(); failure != nil {
			t.Fatal(failure)
		}
	}
}
