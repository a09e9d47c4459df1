package sharedmemory

import (
	"os"

	"golang.org/x/sys/unix"
)

// HideArena makes what large frames of the peer lie in unreadable, like a page for which
// the machine has no memory.
func (e *End) HideArena() error {
	page := os.Getpagesize()
	from := (e.in.firstArena + page - 1) / page * page
	return unix.Mprotect(e.in.region[from:], unix.PROT_NONE)
}
