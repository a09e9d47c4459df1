package sharedmemory

import (
	"sync/atomic"
	"unsafe"
)

// word64 returns the word at an offset of a region as one that can be loaded
// and stored atomically. Preconditions: the offset is a multiple of 8 and lies
// in the region, which is a mapping or lies in the heap, and thus never moves.
// The bound is checked by taking an address, because the race detector would see a read.
func word64(region []byte, offset int) *atomic.Uint64 {
	_ = &region[offset+7]
	return (*atomic.Uint64)(unsafe.Pointer(&region[offset]))
}

// word32 is the same for a multiple of 4.
func word32(region []byte, offset int) *atomic.Uint32 {
	_ = &region[offset+3]
	return (*atomic.Uint32)(unsafe.Pointer(&region[offset]))
}

// storeAndFence64 stores a value so that no load that follows can come before the
// store. By Go's memory model Store would do, but what the race detector puts in its
// place is not a fence, and programs are run with it. Where Store is a fence, both are
// the same instruction.
func storeAndFence64(word *atomic.Uint64, value uint64) { word.Swap(value) }
