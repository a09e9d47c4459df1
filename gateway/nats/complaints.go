package gateway

import (
	"sync"
	"time"
)

const (
	// At most complaintsMax lines of the log in complaintsWindow are about what the engine complains
	// of, because everybody who may publish can cause complaints: by headers that cannot be read, for
	// example.
	complaintsMax    = 10
	complaintsWindow = 10 * time.Second
)

// complaints are those that were logged lately. They are safe for several goroutines.
type complaints struct {
	mu      sync.Mutex
	since   time.Time
	said    int
	leftOut int
}

// next reports whether another one may be logged, and how many were left out since the last one.
func (c *complaints) next(now time.Time) (leftOut int, may bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.since) >= complaintsWindow {
		c.since, c.said = now, 0
	}
	if c.said >= complaintsMax {
		c.leftOut++
		return 0, false
	}
	c.said++
	leftOut, c.leftOut = c.leftOut, 0
	return leftOut, true
}
