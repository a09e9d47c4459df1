package client

import (
	"sync"
	"sync/atomic"

	"github.com/nearcall/nearcall/internal/schema"
)

// A functionTable holds what is known about the functions of one schema. It is valid on
// every connection whose welcome names the hash of that schema.
type functionTable struct {
	hash uint64

	mu sync.RWMutex
	// ids are the ids of functions that were called by name. latest is one of them, or nil:
	// programs call the same function again and again.
	ids    map[string]*knownID
	latest atomic.Pointer[knownID]
	// described are the functions whose descriptions were asked for.
	described map[string]*describedFunction
}

// A knownID never changes.
type knownID struct {
	name string
	id   uint32
}

// A describedFunction is a function of one schema with its description. Only what is
// remembered of usages may change.
type describedFunction struct {
	*schema.Function
	table *functionTable
	id    uint32
	check uint32

	// fitting are the usages that were found to fit the description, the latest last.
	fitting atomic.Pointer[[]usageTypes]
	// blocks are the types of arguments that were looked at by takesBlocks, the latest last.
	blocks atomic.Pointer[[]blockUse]
}

// functionsOf returns the table for a schema. Preconditions: c.mu is held.
func (c *core) functionsOf(hash uint64) *functionTable {
	if c.functions == nil || c.functions.hash != hash {
		c.functions = &functionTable{hash: hash, ids: map[string]*knownID{}, described: map[string]*describedFunction{}}
	}
	return c.functions
}

// find returns a function's id, or 0 if it is not known.
func (t *functionTable) find(name string) uint32 {
	if known := t.latest.Load(); known != nil && known.name == name {
		return known.id
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	known := t.ids[name]
	if known == nil {
		return 0
	}
	t.latest.Store(known)
	return known.id
}

func (t *functionTable) learn(name string, id uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.learnLocked(name, id)
}

func (t *functionTable) learnLocked(name string, id uint32) {
	t.ids[name] = &knownID{name, id}
	t.latest.Store(nil)
}

// findDescribed returns a function with its description, or nil if that is not known.
func (t *functionTable) findDescribed(name string) *describedFunction {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.described[name]
}

func (t *functionTable) describe(f *schema.Function, id uint32) *describedFunction {
	made := &describedFunction{Function: f, table: t, id: id, check: f.Check()}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.learnLocked(f.Name, id)
	t.described[f.Name] = made
	return made
}

// forget drops a description that the server does not have, and the id with it.
func (t *functionTable) forget(outdated *describedFunction) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.described[outdated.Name] == outdated {
		delete(t.described, outdated.Name)
		delete(t.ids, outdated.Name)
		t.latest.Store(nil)
	}
}
