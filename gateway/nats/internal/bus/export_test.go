package bus

import "reflect"

// ReadNow reads what has arrived, without waiting.
func (c *Conn) ReadNow(b []byte) int {
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	return c.stream.in.take(b)
}

// Held returns how many bytes have arrived and were not read, and how many may be.
func (c *Conn) Held() (bytes, window int) {
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	return c.stream.in.bytes, int(c.stream.window)
}

// HeldMemory returns how much memory the bytes take that Held tells of.
func (c *Conn) HeldMemory() (bytes int) {
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	for _, chunk := range c.stream.in.chunks {
		bytes += cap(chunk)
	}
	return bytes + cap(c.stream.in.chunks)*int(reflect.TypeFor[[]byte]().Size())
}

// Failure returns why the connection has ended, or nil.
func (c *Conn) Failure() error {
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	return c.stream.failure
}

// Subjects are where the connection's own messages and the engine's answers come.
func (c *Conn) Subjects() (messages, answers string) {
	return c.stream.hub.subjects.at(c.stream.own), c.stream.replies
}
