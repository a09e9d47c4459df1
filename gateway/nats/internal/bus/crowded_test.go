package bus_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/nearcall/nearcall/gateway/nats/internal/bus"
	"github.com/nearcall/nearcall/internal/transport"
)

const (
	// A link of 10 Mbit/s carries so much in a millisecond.
	linkBytesPerMs = 1250
	// What a message takes there beside its bytes.
	linkOverhead = 200
)

// A link is a medium on which messages wait for their turn.
type link struct {
	medium *faultyMedium
	credit int
}

// pass lets a millisecond pass.
func (l *link) pass() {
	l.medium.nowMs.Add(1)
	for l.credit += linkBytesPerMs; ; {
		l.medium.mu.Lock()
		next := -1
		if len(l.medium.waiting) > 0 {
			next = len(l.medium.waiting[0].data) + linkOverhead
		}
		l.medium.mu.Unlock()
		if next < 0 {
			l.credit = min(l.credit, linkBytesPerMs)
		}
		if next < 0 || next > l.credit {
			return
		}
		l.credit -= next
		l.medium.deliver()
	}
}

// connectOver makes connections between two hubs, in no time.
func (l *link) connectOver(t *testing.T, count int) (dialled, accepted []*bus.Conn) {
	t.Helper()
	m := l.medium
	m.direct = true
	for i := range m.hubs {
		hub, err := bus.New(bus.Config{Now: m.nowMs.Load}, m)
		must(t, err)
		t.Cleanup(hub.Close)
		m.hubs[i] = hub
	}
	listener, err := m.hubs[1].Listen("served")
	must(t, err)
	for range count {
		one, err := m.hubs[0].Dial(context.Background(), m.hubs[1].Instance(), "served")
		must(t, err)
		other, err := listener.Accept()
		must(t, err)
		dialled, accepted = append(dialled, one.(*bus.Conn)), append(accepted, other.(*bus.Conn))
	}
	must(t, listener.Close())
	m.direct = false
	return dialled, accepted
}

// fill writes what there is room for.
func fill(c *bus.Conn, chunk []byte) {
	_ = c.Offer(func(room transport.Room) bool {
		for {
			if n, err := room.WriteNow(chunk); n < len(chunk) || err != nil {
				return true
			}
		}
	})
}

// drain reads what has arrived, and returns how much that was.
func drain(c *bus.Conn, buffer []byte) (bytesCount int) {
	for held, _ := c.Held(); held > 0; held, _ = c.Held() {
		n, err := c.Read(buffer)
		if bytesCount += n; err != nil {
			break
		}
	}
	return bytesCount
}

// Large values of some connections fill a link, in either direction. Calls of another connection go on
// there, no connection ends, and the link is used.
func TestCrowdedLink(t *testing.T) {
	for name, upwards := range map[string]bool{"requests": true, "replies": false} {
		t.Run(name, func(t *testing.T) {
			const bulk, forMs = 8, 20_000
			l := &link{medium: &faultyMedium{}}
			l.medium.nowMs.Store(1)
			from, to := l.connectOver(t, bulk+1)
			if !upwards {
				from, to = to, from
			}
			buffer, chunk := make([]byte, 64<<10), bytes.Repeat([]byte("large "), 8<<10)
			carried, asked, answered, sentMs, slowest := 0, 0, 0, 0, 0
			for ms := range forMs {
				for i := range bulk {
					fill(from[i], chunk)
					carried += drain(to[i], buffer)
				}
				if asked == answered && ms%50 == 0 {
					_, err := from[bulk].Write([]byte("q"))
					must(t, err)
					asked, sentMs = asked+1, ms
				}
				if got := drain(to[bulk], buffer); got > 0 {
					answered, slowest = answered+got, max(slowest, ms-sentMs)
				}
				l.pass()
			}
			for i := range from {
				if from[i].Failure() != nil || to[i].Failure() != nil {
					t.Fatalf("connection %d has ended: %v, %v", i, from[i].Failure(), to[i].Failure())
				}
			}
			t.Logf("%d of %d bytes were carried; %d small messages took %d ms at most", carried, forMs*linkBytesPerMs, answered, slowest)
			if carried < forMs*linkBytesPerMs*8/10 {
				t.Errorf("%d of %d bytes were carried", carried, forMs*linkBytesPerMs)
			}
			if answered < forMs/1000 || slowest > 1000 {
				t.Errorf("%d small messages arrived, the slowest after %d ms", answered, slowest)
			}
		})
	}
}
