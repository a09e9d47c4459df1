package bus

// chunkBytes is the size from which on the bytes of a message are kept where they are. Smaller
// ones are copied together, so that many small messages take no more memory than their bytes.
const chunkBytes = 4 << 10

// An inbox holds bytes that have arrived and were not read.
type inbox struct {
	chunks [][]byte
	// open is set if the last chunk is the inbox's own, and may have room.
	open  bool
	bytes int
}

// put adds bytes, which nobody else may use any more.
func (i *inbox) put(b []byte) {
	i.bytes += len(b)
	if len(b) >= chunkBytes {
		i.chunks, i.open = append(i.chunks, b), false
		return
	}
	if last := len(i.chunks) - 1; i.open && cap(i.chunks[last])-len(i.chunks[last]) >= len(b) {
		i.chunks[last] = append(i.chunks[last], b...)
		return
	}
	// One small message alone is the usual case.
	room := len(b)
	if len(i.chunks) > 0 {
		room = chunkBytes
	}
	i.chunks, i.open = append(i.chunks, append(make([]byte, 0, room), b...)), true
}

// take moves bytes into b, and returns how many.
func (i *inbox) take(b []byte) (n int) {
	for n < len(b) && len(i.chunks) > 0 {
		moved := copy(b[n:], i.chunks[0])
		n += moved
		if i.chunks[0] = i.chunks[0][moved:]; len(i.chunks[0]) == 0 {
			i.chunks[0] = nil
			if i.chunks = i.chunks[1:]; len(i.chunks) == 0 {
				i.chunks, i.open = nil, false
			}
		}
	}
	i.bytes -= n
	return n
}

// drop forgets everything.
func (i *inbox) drop() { *i = inbox{} }
