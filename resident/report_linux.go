package resident

import (
	"encoding/json"
	"os"
)

// report is what status and stop are answered with.
func (r *resident) report() string {
	running, runs := r.activity.counts()
	s := Status{
		Program: r.program, ProcessID: os.Getpid(), Mode: r.options.Mode.String(), StartedMS: r.started.UnixMilli(),
		Runs: runs, Running: running - 1, // without the one that asks
		IdleMS: r.options.idle().Milliseconds(), Leaving: r.leaving.Load(),
	}
	if s.IdleMS < 0 {
		s.IdleMS = -1
	}
	if r.pool != nil {
		s.Waiting = r.pool.waits()
	}
	text, err := json.Marshal(s)
	if err != nil {
		return "{}" // names that are not UTF-8 are replaced, so there is no such error
	}
	return string(text)
}
