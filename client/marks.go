package client

import (
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/status"
)

// startMarks tell how far the server came with a call. The zero value, without shared
// memory, tells nothing.
type startMarks struct {
	marks *sharedmemory.Marks
	// firstID is the id of the first call for which there are marks.
	firstID uint64
}

// speaksOf reports whether there is a mark for the call with this id.
func (m startMarks) speaksOf(id uint64) bool { return m.marks != nil && id >= m.firstID }

func (m startMarks) stage(id uint64) sharedmemory.Stage {
	if !m.speaksOf(id) {
		return sharedmemory.StageOverwritten
	}
	return m.marks.Stage(id)
}

// marked reports whether the mark of a call still tells how far the call came.
func (m startMarks) marked(id uint64) bool { return m.stage(id) != sharedmemory.StageOverwritten }

// outcomeOf returns what a mark says about a call without an answer. final means that
// the server has closed the connection, so that what has not started never will.
func (m startMarks) outcomeOf(id uint64, final bool) status.Outcome {
	switch stage := m.stage(id); {
	case stage == sharedmemory.StageFinished:
		return status.OutcomeExecutedResultLost
	case final && (stage == sharedmemory.StageNone || stage == sharedmemory.StageReceived):
		return status.OutcomeNotExecuted
	}
	return status.OutcomeUnknown
}
