package sharedmemory

import "sync/atomic"

// storeRelease32 stores a value after all stores before it, and waits for none of them.
// Store of package atomic is also a fence here, which waits until the other side's
// processor has given up every line that was written before.
//
//go:noescape
func storeRelease32(word *atomic.Uint32, value uint32)

// prefetchToWrite asks for two lines that will be written soon. The other side's processor
// has them, because it has read what was there before.
//
//go:noescape
func prefetchToWrite(line, other *byte)
