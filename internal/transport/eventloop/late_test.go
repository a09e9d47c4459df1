package eventloop_test

import (
	"errors"
	"os"
	"testing"
	"time"
)

// TestInTimeButReadLate: what came before the deadline is read by a goroutine that runs
// after it; then the deadline counts.
func TestInTimeButReadLate(t *testing.T) {
	eachTransport(t, func(p pair) {
		// A machine that takes longer than the deadline gets a longer one.
		for length := 100 * time.Millisecond; length < timeout; length *= 2 {
			resumed := p.parkIdle()
			deadline := time.Now().Add(length)
			p.conn.SetReadDeadline(deadline)
			p.send("in time")
			p.wantResumed(resumed)
			if time.Now().Before(deadline) {
				waitUntil(deadline)
				p.wantRead("in time", 100)
				p.wantPassed()
				return
			}
			p = p.another()
		}
		p.Fatal("never resumed in time")
	})
}

// TestInTimeForAFormerDeadline: a deadline that is set later is not met by what came
// before it was set.
func TestInTimeForAFormerDeadline(t *testing.T) {
	p := newUnixPair(t)
	p.conn.SetReadDeadline(time.Now().Add(time.Hour))
	resumed := p.parkIdle()
	p.send("for the former")
	p.wantResumed(resumed)
	p.conn.SetReadDeadline(time.Unix(1, 0))
	p.wantPassed()
}

// TestTooLate: nothing is read that came after the deadline.
func TestTooLate(t *testing.T) {
	p := newUnixPair(t)
	resumed := p.parkIdle()
	p.conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	p.wantResumed(resumed)
	p.send("too late")
	p.wantPassed()
}

func (p pair) wantPassed() {
	p.Helper()
	if n, err := p.conn.ReadNow(make([]byte, 100)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		p.Errorf("ReadNow: %d, %v, want the deadline", n, err)
	}
}

func waitUntil(moment time.Time) { <-time.After(time.Until(moment) + time.Millisecond) }
