package server

import (
	"math/bits"
	"sync"
)

const (
	// Buffers of less are not worth the lending.
	pooledBytesMin = 4 << 10
	// A frame of a round size has a header and extensions as well.
	pooledBytesExtra = 4 << 10
	// The largest one takes the largest frame there may be. More than that, of an output
	// with many frames, is not lent but made.
	pooledSizes = 13
)

// pooledBytes returns the bytes of the smallest buffer that has so many.
func pooledBytes(bytes int) int {
	size := sizeOf(bytes)
	if size >= pooledSizes {
		return bytes
	}
	return pooledBytesMin<<size + pooledBytesExtra
}

func sizeOf(bytes int) int {
	return bits.Len(uint(max(bytes-pooledBytesExtra-1, 0) / pooledBytesMin))
}

// A bufferPool lends large buffers to connections while a large frame arrives or is
// written, by their sizes, so that what is lent is what is counted. The garbage
// collector empties it.
type bufferPool struct{ sizes [pooledSizes]sync.Pool }

// get returns a buffer of pooledBytes.
func (p *bufferPool) get(bytes int) []byte {
	if size := sizeOf(bytes); size < pooledSizes {
		if lent, ok := p.sizes[size].Get().(*[]byte); ok {
			return *lent
		}
	}
	return make([]byte, pooledBytes(bytes))
}

// put takes a buffer back. One that did not come from get is left to the garbage collector.
func (p *bufferPool) put(buffer []byte) {
	if size := sizeOf(len(buffer)); size < pooledSizes && len(buffer) == pooledBytes(len(buffer)) {
		p.sizes[size].Put(&buffer)
	}
}
