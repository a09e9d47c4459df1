//go:build !amd64

package sharedmemory

import "sync/atomic"

// storeRelease32 stores a value after all stores before it.
func storeRelease32(word *atomic.Uint32, value uint32) { word.Store(value) }

// publish is storeRelease32: no instruction is known that asks for the lines.
func publish(word *atomic.Uint32, value uint32, _, _ *byte) { word.Store(value) }
