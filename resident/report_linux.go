package resident

import (
	"encoding/json"
	"os"
	"time"

	"github.com/nearcall/nearcall/resident/internal/request"
)

// idleMS returns an idle time as reports have it: any negative time means without a
// limit.
func idleMS(idle time.Duration) int64 {
	if idle < 0 {
		return -1
	}
	return idle.Milliseconds()
}

// report returns the answer to status and stop.
func (r *resident) report(leaving bool) (string, error) {
	s := request.State{
		Program: r.program, ProcessID: os.Getpid(), Mode: r.options.Mode.String(), StartedMS: r.started.UnixMilli(),
		IdleMS: idleMS(r.options.idle()), Leaving: leaving,
		Reads: append([]string{}, r.options.Environment...), ReadsDirectory: r.guard.reads.directory, ReadsInput: r.guard.reads.input,
	}
	s.Running, s.Runs = r.activity.counts()
	if r.pool != nil {
		s.Waiting = r.pool.waits()
	}
	text, err := json.Marshal(s)
	return string(text), err
}
