package client

import (
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/status"
)

// The functions here say what start marks tell about a call; without shared memory
// there are none, and they tell nothing. Preconditions of all of them: connection.mu is
// held, or the caller has taken the role and nobody else will have it again.

// speaksOf reports whether there is a mark for the call with this id.
func (m *memory) speaksOf(id uint64) bool { return m != nil && id >= m.firstID }

func (m *memory) stage(id uint64) sharedmemory.Stage {
	if !m.speaksOf(id) {
		return sharedmemory.StageOverwritten
	}
	return m.end.Marks().Stage(id)
}

// marked reports whether the mark of a call still tells how far the call came.
func (m *memory) marked(id uint64) bool { return m.stage(id) != sharedmemory.StageOverwritten }

// outcomeOf returns what a mark says about a call without an answer. final means that
// the server has closed the connection, so that what has not started never will.
func (m *memory) outcomeOf(id uint64, final bool) status.Outcome {
	switch stage := m.stage(id); {
	case stage == sharedmemory.StageFinished:
		return status.OutcomeExecutedResultLost
	case final && (stage == sharedmemory.StageNone || stage == sharedmemory.StageReceived):
		return status.OutcomeNotExecuted
	}
	return status.OutcomeUnknown
}
