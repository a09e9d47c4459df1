package client

// callSlotsMin is the first size of a table; a power of two.
const callSlotsMin = 64

// A slot holds an id that was sent and not answered. call is nil if the call was given
// up: its answer will be dropped, and until then the server counts it.
type slot struct {
	id   uint64
	call *call
}

// A callTable finds the calls in flight by id. The slot of an id is the id modulo the
// size of the table. An id whose slot is in use is skipped. The zero value is ready for
// use.
type callTable struct {
	slots   []slot
	used    int
	waiting int
	// lastID is the highest id that was given out.
	lastID uint64
	// marks is the number of start marks of the connection, or 0 without shared memory.
	// Ids in the table then have to differ modulo marks too, so fewer of them fit.
	marks int
}

// free reports whether an id may be given out.
func (t *callTable) free(id uint64) bool {
	step := uint64(len(t.slots))
	if t.marks > 0 {
		step = min(step, uint64(t.marks))
	}
	for at := id & (step - 1); at < uint64(len(t.slots)); at += step {
		if t.slots[at].id != 0 {
			return false
		}
	}
	return true
}

// add gives the call an id, higher than all before.
func (t *callTable) add(c *call) {
	if 2*(t.used+1) > len(t.slots) {
		t.grow()
	}
	mask := uint64(len(t.slots) - 1)
	id := t.lastID + 1
	for !t.free(id) {
		id++
	}
	t.slots[id&mask] = slot{id: id, call: c}
	t.used++
	t.waiting++
	t.lastID = id
	c.id = id
}

// grow doubles the table. Ids that differ modulo the old size differ modulo twice that
// size, so every slot finds an empty place.
func (t *callTable) grow() {
	grown := make([]slot, max(callSlotsMin, 2*len(t.slots)))
	for _, s := range t.slots {
		if s.id != 0 {
			grown[s.id&uint64(len(grown)-1)] = s
		}
	}
	t.slots = grown
}

func (t *callTable) find(id uint64) *slot {
	if len(t.slots) == 0 || id == 0 {
		return nil
	}
	if s := &t.slots[id&uint64(len(t.slots)-1)]; s.id == id {
		return s
	}
	return nil
}

// waitsFor returns the call with that id if it still waits, or else nil.
func (t *callTable) waitsFor(id uint64) *call {
	if s := t.find(id); s != nil {
		return s.call
	}
	return nil
}

// take removes an id and returns its call, or nil if that was given up. found is false
// for ids that were never sent, or that were already answered.
func (t *callTable) take(id uint64) (c *call, found bool) {
	s := t.find(id)
	if s == nil {
		return nil, false
	}
	c = s.call
	*s = slot{}
	t.used--
	if c != nil {
		t.waiting--
	}
	return c, true
}

// giveUp forgets the call but keeps its id until it is answered. It reports whether the
// call was still waiting.
func (t *callTable) giveUp(id uint64) bool {
	s := t.find(id)
	if s == nil || s.call == nil {
		return false
	}
	s.call = nil
	t.waiting--
	return true
}

// takeUnsent removes the calls that were sent by the socket and whose ids are above
// limit, the highest one that the kernel took.
func (t *callTable) takeUnsent(limit uint64) []*call {
	var taken []*call
	for i := range t.slots {
		if c := t.slots[i].call; c != nil && c.id > limit && !c.inMemory {
			t.take(c.id)
			taken = append(taken, c)
		}
	}
	return taken
}

// takeAbove removes all ids above limit. It returns the calls among them that were
// still waiting.
func (t *callTable) takeAbove(limit uint64) []*call {
	var taken []*call
	for i := range t.slots {
		if id := t.slots[i].id; id > limit {
			if c, _ := t.take(id); c != nil {
				taken = append(taken, c)
			}
		}
	}
	return taken
}
