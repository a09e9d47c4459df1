package resident

import (
	"encoding/json"
	"os"

	"github.com/nearcall/nearcall/resident/internal/request"
)

// report is what status and stop are answered with.
func (r *resident) report(leaving bool) (string, error) {
	s := request.State{
		Program: r.program, ProcessID: os.Getpid(), Mode: r.options.Mode.String(), StartedMS: r.started.UnixMilli(),
		IdleMS: max(r.options.idle().Milliseconds(), -1), Leaving: leaving,
	}
	s.Running, s.Runs = r.activity.counts()
	if r.pool != nil {
		s.Waiting = r.pool.waits()
	}
	text, err := json.Marshal(s)
	return string(text), err
}
