package sharedmemory

import "sync/atomic"

// A Stage is how far a call came.
type Stage uint8

// These are the stages. StageNone means that the mark says nothing about the call, or
// that the server has not seen the call.
const (
	StageNone Stage = iota
	StageReceived
	StageStarted
	StageFinished
	// StageOverwritten means that the mark belongs to a later call.
	StageOverwritten
)

// Marks tell how far calls came. The server stores them, from any goroutine; the caller
// loads them, even after the server's death. A nil *Marks stands for a connection
// without memory.
type Marks struct {
	page []byte
	mask uint64
}

func (m *Marks) init(server []byte, count int) {
	m.page, m.mask = server[headBytes:headBytes+count*markBytes], uint64(count-1)
}

// NewMarks returns marks in memory of this process alone, for connections that share none.
// Preconditions: count is a power of two.
func NewMarks(count int) *Marks {
	// Memory that is allocated in one piece of this size begins at a multiple of 8.
	return &Marks{page: make([]byte, count*markBytes), mask: uint64(count - 1)}
}

// Marks returns the marks of the connection. They may be used until the regions
// are closed.
func (e *End) Marks() *Marks { return &e.marks }

func (m *Marks) word(callID uint64) *atomic.Uint64 {
	return word64(m.page, int(callID&m.mask)*markBytes)
}

// Set stores the stage of a call, unless the mark already belongs to a later one. The
// store is sequentially consistent.
func (m *Marks) Set(callID uint64, stage Stage) {
	if m == nil {
		return
	}
	word := m.word(callID)
	for {
		former := word.Load()
		if former>>callIDShift > callID || word.CompareAndSwap(former, callID<<callIDShift|uint64(stage)) {
			return
		}
	}
}

// Stage returns how far a call came.
func (m *Marks) Stage(callID uint64) Stage {
	word := m.word(callID).Load()
	switch marked := word >> callIDShift; {
	case marked == callID:
		return Stage(word & markRaisedState)
	case marked > callID:
		return StageOverwritten
	}
	return StageNone
}
