package sharedmemory

// A Ration is a process's, for tests that say what time it is.
type Ration struct{ ration }

// Displaced reports a displaced spinner and returns until when everybody rests.
func (r *Ration) Displaced(nowNs uint64) (restUntilNs uint64) {
	r.displaced(nowNs)
	return r.restUntilNs.Load()
}
