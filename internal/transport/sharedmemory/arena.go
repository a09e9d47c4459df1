package sharedmemory

// An arena lends out the bytes behind a ring, in the order of the frames whose bodies
// they hold, and takes them back in the same order. It knows only what its writer has
// done; none of its own state lies in the region.
type arena struct {
	pages     []byte
	populated int // bytes from the start whose pages are known to exist
	head      int // where the next body may begin
	tail      int // where the oldest body begins
	live      int // number of bodies that are lent
	wrapped   bool
}

// room returns where a body of that many bytes may begin.
func (a *arena) room(bytes int) (start int, found bool) {
	if a.live == 0 {
		a.head, a.tail, a.wrapped = 0, 0, false
	}
	switch {
	case a.wrapped && a.head+bytes <= a.tail:
		return a.head, true
	case a.wrapped:
		return 0, false
	case a.head+bytes <= len(a.pages):
		return a.head, true
	case a.live > 0 && bytes <= a.tail:
		return 0, true
	}
	return 0, false
}

// lend takes the bytes that room has found. It returns nil if the machine has no memory
// for them.
func (a *arena) lend(start, bytes int) []byte {
	end := start + bytes
	if end > a.populated {
		until := min(len(a.pages), (end+arenaGrowth-1)/arenaGrowth*arenaGrowth)
		if populate(a.pages[a.populated:until]) != nil {
			return nil
		}
		a.populated = until
	}
	a.wrapped = a.wrapped || start < a.head
	a.head = align(end)
	a.live++
	return a.pages[start:end]
}

// giveBack takes back the oldest body, which ends at end.
func (a *arena) giveBack(start, bytes int) {
	if start < a.tail {
		a.wrapped = false
	}
	a.tail = align(start + bytes)
	a.live--
}

func align(offset int) int { return (offset + arenaAlignment - 1) &^ (arenaAlignment - 1) }
