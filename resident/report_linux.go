package resident

import (
	"encoding/json"
	"os"
)

// A report is what status and stop are answered with.
type report struct {
	Program   string `json:"program"`
	ProcessID int    `json:"pid"`
	Mode      string `json:"mode"`
	StartedMS int64  `json:"started_ms"`
	IdleMS    int64  `json:"idle_ms"`
	Runs      uint64 `json:"runs"`
	Running   int    `json:"running"`
	Waiting   int    `json:"waiting"`
	Leaving   bool   `json:"leaving"`
}

func (r *resident) report(leaving bool) (string, error) {
	s := report{
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
