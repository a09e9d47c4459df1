package client

import "sync"

// A functionTable holds what is known of the functions of one schema: their
// ids, which are valid on every connection whose welcome has its hash.
type functionTable struct {
	hash uint64

	mu  sync.RWMutex
	ids map[string]uint32
}

// functionsOf returns the table for a schema. Preconditions: c.mu is held.
func (c *Client) functionsOf(hash uint64) *functionTable {
	if c.functions == nil || c.functions.hash != hash {
		c.functions = &functionTable{hash: hash, ids: map[string]uint32{}}
	}
	return c.functions
}

// find returns a function's id, 0 when it is not known.
func (t *functionTable) find(name string) uint32 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.ids[name]
}

func (t *functionTable) learn(name string, id uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ids[name] = id
}
