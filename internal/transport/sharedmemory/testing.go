package sharedmemory

// SlotForTest returns slot n of the caller's ring, for tests that put in it what
// a caller must not.
func (r *Regions) SlotForTest(n int) []byte {
	return r.caller[r.geometry.callerRegion().slots+n*slotBytes:][:slotBytes]
}

// PublishForTest publishes slot n, as the n-th frame.
func (r *Regions) PublishForTest(n int) {
	word32(r.SlotForTest(n), sequenceOffset).Store(uint32(n + 1))
}

// BytesForTest returns both regions from end to end, for tests that damage the
// one and search the other.
func (r *Regions) BytesForTest() (caller, server []byte) { return r.caller, r.server }
