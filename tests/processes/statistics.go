package processes

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory/memorytest"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
)

// Statistics asks the server at a path what it tells of itself, through a
// connection of its own, which counts.
func Statistics(t testing.TB, path string) (all server.Statistics) {
	t.Helper()
	c, err := memorytest.Connect(path, 10*time.Second, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	emptyArray := []byte{0x90}
	request := c.Request("nearcall.stats", emptyArray)
	request.Codec = wire.CodecMessagePack
	if err := c.Put(&request); err != nil {
		t.Fatal(err)
	}
	reply, err := c.TakeFrame()
	if err != nil || reply.Type != wire.Reply {
		t.Fatalf("%v %v", reply.Type, err)
	}
	// The result is one string: what is before its first brace is its length.
	document := reply.Payload[max(0, bytes.IndexByte(reply.Payload, '{')):]
	if err := json.Unmarshal(document, &all); err != nil {
		t.Fatalf("%v: %q", err, reply.Payload)
	}
	return all
}

// A Baseline is what a server holds while only those call that should.
type Baseline struct {
	Descriptors, Regions, Goroutines, Connections int
}

// HoldsNow returns what a server holds.
func HoldsNow(t testing.TB, p *Process, path string) Baseline {
	t.Helper()
	all := Statistics(t, path)
	return Baseline{p.Descriptors(t), p.Regions(t), all.Goroutines, all.Connections}
}

// WaitForBaseline waits until a server holds no more than it did.
func WaitForBaseline(t testing.TB, p *Process, path string, before Baseline, bound time.Duration) {
	t.Helper()
	var now Baseline
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if now = HoldsNow(t, p, path); now.isWithin(before) {
			return
		}
	}
	t.Fatalf("after %s the server holds %+v, before it held %+v", bound, now, before)
}

// isWithin allows for one more goroutine: the function that tells what the server
// holds runs in one of its own when it has proved to be slow. Less than before is
// what was being made then, such as memory for a connection.
func (b Baseline) isWithin(before Baseline) bool {
	return b.Descriptors <= before.Descriptors && b.Regions <= before.Regions &&
		b.Goroutines <= before.Goroutines+1 && b.Connections <= before.Connections
}
