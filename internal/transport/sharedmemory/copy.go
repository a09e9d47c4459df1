package sharedmemory

// cachedBytesMax is how much is copied at once. From a mebibyte on, Go's copy writes past the
// caches (on amd64), so that the other side would have to fetch everything from memory.
const cachedBytesMax = 256 << 10

// copyCached is copy for bytes that are read soon.
func copyCached(to, from []byte) int {
	bytes := min(len(to), len(from))
	for done := 0; done < bytes; done += cachedBytesMax {
		end := min(done+cachedBytesMax, bytes)
		copy(to[done:end], from[done:end])
	}
	return bytes
}

// appendCached is append for bytes that are read soon. Memory that is new is in no cache anyway.
func appendCached(to, from []byte) []byte {
	if cap(to)-len(to) < len(from) {
		return append(to, from...)
	}
	former := len(to)
	to = to[:former+len(from)]
	copyCached(to[former:], from)
	return to
}
