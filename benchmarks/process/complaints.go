package process

import (
	"strings"
	"sync"
)

// complaintsMax is as much as a process's reason to fail takes.
const complaintsMax = 1 << 10

// complaints keep the first that a process writes to its standard error: why it
// failed, where it did.
type complaints struct {
	mu   sync.Mutex
	text []byte
}

func (c *complaints) Write(text []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, text[:min(len(text), complaintsMax-len(c.text))]...)
	return len(text), nil
}

// suffix is what to add to an error's text.
func (c *complaints) suffix() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if text := strings.TrimSpace(string(c.text)); text != "" {
		return ": " + text
	}
	return ""
}
