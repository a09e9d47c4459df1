package resident

import (
	"log/slog"
	"sync"
	"time"
)

// complaintPause is the least time between two complaints: anybody who can connect
// could otherwise fill the log.
const complaintPause = time.Second

// complaints log that connections were not as they should be.
type complaints struct {
	log *slog.Logger

	mu     sync.Mutex
	last   time.Time
	unsaid int // how many were not logged since then
}

func (c *complaints) of(what string, reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.last) >= complaintPause {
		c.log.Warn(what, "reason", reason, "unsaid", c.unsaid)
		c.last, c.unsaid = now, 0
		return
	}
	c.unsaid++
}
