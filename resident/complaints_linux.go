package resident

import (
	"log/slog"
	"sync"
	"time"
)

// complaintPause is between two complaints: whoever can connect could fill the log.
const complaintPause = time.Second

// complaints say in the log that connections were not as they should be.
type complaints struct {
	log *slog.Logger

	mu     sync.Mutex
	last   time.Time
	unsaid int // since then
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
