package client

import (
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/status"
)

// What the start marks say; without memory they say nothing. Preconditions of
// all: connection.mu is held, or the caller has the role for good.

// speaksOf reports whether there is a mark for a call.
func (m *memory) speaksOf(id uint64) bool { return m != nil && id >= m.firstID }

func (m *memory) stage(id uint64) sharedmemory.Stage {
	if !m.speaksOf(id) {
		return sharedmemory.StageOverwritten
	}
	return m.end.Marks().Stage(id)
}

// marked reports whether the mark of a call tells how far it came.
func (m *memory) marked(id uint64) bool { return m.stage(id) != sharedmemory.StageOverwritten }

// outcomeOf is what a mark says about a call without an answer. final: the server
// has closed the connection, so what has not started will not.
func (m *memory) outcomeOf(id uint64, final bool) status.Outcome {
	switch stage := m.stage(id); {
	case stage == sharedmemory.StageFinished:
		return status.OutcomeExecutedResultLost
	case final && (stage == sharedmemory.StageNone || stage == sharedmemory.StageReceived):
		return status.OutcomeNotExecuted
	}
	return status.OutcomeUnknown
}
