package client

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/wire"
)

// functionTablesMax is how many schemas are remembered. Endpoints of one address may have
// different ones, and a server that is replaced gets a new one.
const functionTablesMax = 8

// absentMax bounds the names that are remembered to be no functions. A program that has more
// asks again for those.
const absentMax = 256

// absentNs is for how long a name is remembered to be no function. A server may say so of a
// function that another server runs for it, and that is there again without a new schema.
const absentNs = wire.LookupMs * uint64(time.Millisecond)

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
	// absent are names that are no functions, with the time until which that is believed. It
	// is replaced and never changed; nil stands for none.
	absent atomic.Pointer[map[string]uint64]
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

// functionsOf returns the table for a schema. The table that was not used for longest makes
// room for a new one. Preconditions: c.mu is held.
func (c *core) functionsOf(hash uint64) *functionTable {
	at := slices.IndexFunc(c.functions, func(t *functionTable) bool { return t.hash == hash })
	table := &functionTable{hash: hash, ids: map[string]*knownID{}, described: map[string]*describedFunction{}}
	if at >= 0 {
		table = c.functions[at]
		c.functions = slices.Delete(c.functions, at, at+1)
	}
	c.functions = slices.Insert(c.functions, 0, table)
	c.functions = c.functions[:min(len(c.functions), functionTablesMax)]
	return table
}

// absentUntilNs returns until when the server is believed not to have a function of that name, or
// 0 if it is not.
func (t *functionTable) absentUntilNs(name string) uint64 {
	absent := t.absent.Load()
	if absent == nil {
		return 0
	}
	return (*absent)[name]
}

// noteAbsent remembers that the server has no function of that name.
func (t *functionTable) noteAbsent(name string, nowNs uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := map[string]uint64{}
	if known := t.absent.Load(); known != nil && len(*known) < absentMax {
		maps.Copy(names, *known)
	}
	names[name] = nowNs + absentNs
	t.absent.Store(&names)
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
