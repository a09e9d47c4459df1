//go:build !amd64

package sharedmemory

import "sync/atomic"

// storeRelease32 stores a value after all stores before it.
func storeRelease32(word *atomic.Uint32, value uint32) { word.Store(value) }

// prefetchToWrite does nothing on processors for which no such instruction is known.
func prefetchToWrite(_, _ *byte) {}
