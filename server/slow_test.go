package server_test

import (
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// A function that is slow now and then.
const (
	slowRunTime  = 100 * time.Millisecond
	callsPerSlow = 200
	slowCalls    = 30
	// The first is, and where the machine was busy another one may be.
	heldUpMax = slowCalls / 6
)

// A sometimes is a function that is slow once in callsPerSlow calls.
type sometimes struct {
	calls    atomic.Int64
	inReader atomic.Int64 // of the slow ones
}

func (s *sometimes) run() int64 {
	if s.calls.Add(1)%callsPerSlow == 0 {
		if isInReader() {
			s.inReader.Add(1)
		}
		time.Sleep(slowRunTime)
	}
	return 1
}

// isInReader tells a function whether the goroutine that reads its connection runs it, which
// reads nothing meanwhile: it is that which holds others up.
func isInReader() bool { return strings.Contains(string(debug.Stack()), "server.(*reader).runInline(") }

// callBeside calls the function, and another one whenever it is slow. It returns how often
// that was answered later.
func (s *sometimes) callBeside(t *testing.T, c *caller) (later int) {
	t.Helper()
	for range slowCalls {
		slow := c.begin("sometimes", 0)
		quick := c.begin("quick", 0)
		answered, _, failure := c.result()
		if failure != nil {
			t.Fatal(failure)
		}
		if answered == slow {
			later++
		}
		if other, _, failure := c.result(); failure != nil || answered+other != slow+quick {
			t.Fatalf("calls %d and %d are answered as %d and %d: %v", slow, quick, answered, other, failure)
		}
		for range callsPerSlow - 1 {
			if _, failure := c.call("sometimes"); failure != nil {
				t.Fatal(failure)
			}
		}
	}
	return later
}

// TestOnceSlowIsRemembered: a function that is slow now and then holds up the others
// of its connection when that is new, and not over and over.
func TestOnceSlowIsRemembered(t *testing.T) {
	s := newServer(t)
	var slow sometimes
	register(t, s, "sometimes", slow.run)
	register(t, s, "quick", func() int64 { return 1 })
	c := connect(t, start(t, s))
	for range callsPerSlow - 1 {
		if _, failure := c.call("sometimes"); failure != nil {
			t.Fatal(failure)
		}
	}
	later := slow.callBeside(t, c)
	if inReader := slow.inReader.Load(); inReader > heldUpMax || later > heldUpMax {
		t.Errorf("of %d slow calls the reader ran %d, and %d held up a quick one to their end", slowCalls, inReader, later)
	}
}

// TestApartIsNotRunByTheReader: not even the first call is.
func TestApartIsNotRunByTheReader(t *testing.T) {
	s := newServer(t)
	register(t, s, "apart", isInReader, server.Apart())
	register(t, s, "plain", isInReader)
	c := connect(t, start(t, s))
	for name, want := range map[string]bool{"apart": false, "plain": true} {
		if got, failure := c.call(name); got != want {
			t.Errorf("%s was run by the reader: %v, want %v (%v)", name, got, want, failure)
		}
	}
}

// TestApartIsNotRunDirectly: nor does it hold up a caller in the same process.
func TestApartIsNotRunDirectly(t *testing.T) {
	s := newServer(t)
	register(t, s, "apart", func(data []byte) []byte { return data }, server.Apart())
	d := directOf(t, s)
	if run := d.Run(d.Find("apart"), uint8(wire.CodecRaw), nil, nil, 0); run != nil {
		code := run.Code
		t.Errorf("it was run directly: %v", status.Code(code))
	}
}
