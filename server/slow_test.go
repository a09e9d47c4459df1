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
	// A machine that is busy delays calls as well.
	delayedMax = slowCalls / 6
	delayMax   = 8 * time.Millisecond
)

// delays calls a function that is slow once in callsPerSlow calls, and another
// one whenever it is. It returns how often that waited for longer than delayMax.
func delays(t *testing.T, c *caller) (delayed int) {
	t.Helper()
	for range slowCalls {
		slow := c.begin("sometimes", 0)
		begun := time.Now()
		quick := c.begin("quick", 0)
		answered, _, failure := c.result()
		if failure != nil {
			t.Fatal(failure)
		}
		if answered == slow || time.Since(begun) > delayMax {
			delayed++
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
	return delayed
}

// serveSometimes serves the two functions of delays.
func serveSometimes(t *testing.T) *caller {
	t.Helper()
	s := newServer(t)
	var calls atomic.Int64
	register(t, s, "sometimes", func() int64 {
		if calls.Add(1)%callsPerSlow == 0 {
			time.Sleep(slowRunTime)
		}
		return 1
	})
	register(t, s, "quick", func() int64 { return 1 })
	c := connect(t, start(t, s))
	for range callsPerSlow - 1 {
		if _, failure := c.call("sometimes"); failure != nil {
			t.Fatal(failure)
		}
	}
	return c
}

// TestOnceSlowIsRemembered: a function that is slow now and then holds up the others
// of its connection when that is new, and not over and over.
func TestOnceSlowIsRemembered(t *testing.T) {
	if delayed := delays(t, serveSometimes(t)); delayed > delayedMax {
		t.Errorf("a quick function was delayed by more than %v in %d of %d slow calls of another one", delayMax, delayed, slowCalls)
	}
}

// TestApartIsNotRunByTheReader: not even the first call is.
func TestApartIsNotRunByTheReader(t *testing.T) {
	s := newServer(t)
	inReader := func() bool { return strings.Contains(string(debug.Stack()), "connection).runInline(") }
	register(t, s, "apart", inReader, server.Apart())
	register(t, s, "plain", inReader)
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
	d, err := s.Direct()
	if err != nil {
		t.Fatal(err)
	}
	if run := d.Run(d.Find("apart"), uint8(wire.CodecRaw), nil, 0); run != nil {
		_, code, _ := run.Reply()
		t.Errorf("it was run directly: %v", status.Code(code))
	}
}
