package server

import (
	"math/bits"
	"sync"
)

const (
	// Smaller buffers are not worth lending.
	pooledBytesMin = 4 << 10
	// Room for the header and the extensions of a frame whose payload has a round size.
	pooledBytesExtra = 4 << 10
	// The largest buffer holds the largest frame there can be. An output with many
	// frames may need more; such a buffer is not lent but made.
	pooledSizes = 13
)

// pooledBytes returns the size of the smallest buffer with at least so many bytes.
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
// written. Buffers are kept by size, so that exactly what is lent is counted. The
// garbage collector empties the pool.
type bufferPool struct{ sizes [pooledSizes]sync.Pool }

// get returns a buffer of the size that pooledBytes gives.
func (p *bufferPool) get(bytes int) []byte {
	if size := sizeOf(bytes); size < pooledSizes {
		if lent, ok := p.sizes[size].Get().(*[]byte); ok {
			return *lent
		}
	}
	return make([]byte, pooledBytes(bytes))
}

// put takes a buffer back. A buffer that did not come from get is left to the garbage
// collector.
func (p *bufferPool) put(buffer []byte) {
	if size := sizeOf(len(buffer)); size < pooledSizes && len(buffer) == pooledBytes(len(buffer)) {
		p.sizes[size].Put(&buffer)
	}
}
