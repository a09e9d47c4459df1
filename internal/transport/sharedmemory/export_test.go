package sharedmemory

import (
	"os"

	"golang.org/x/sys/unix"
)

// A Ration is a process's, for tests that say what time it is.
type Ration struct{ ration }

// Displaced reports a displaced spinner and returns until when everybody rests.
func (r *Ration) Displaced(nowNs uint64) (restUntilNs uint64) {
	r.displaced(nowNs)
	return r.restUntilNs.Load()
}

// HideArena makes what large frames of the peer lie in unreadable, like a page for which
// the machine has no memory.
func (e *End) HideArena() error {
	page := os.Getpagesize()
	from := (e.in.firstArena + page - 1) / page * page
	return unix.Mprotect(e.in.region[from:], unix.PROT_NONE)
}
