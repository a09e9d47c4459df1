package resident

// Status is what a resident tells of itself.
type Status struct {
	Program   string `json:"program"`
	ProcessID int    `json:"pid"`
	Mode      string `json:"mode"`
	StartedMS int64  `json:"started_ms"` // since 1970
	Runs      uint64 `json:"runs"`       // that have ended
	Running   int    `json:"running"`    // now
	Waiting   int    `json:"waiting"`    // processes of a pool that wait
	IdleMS    int64  `json:"idle_ms"`    // -1: it stays
	Leaving   bool   `json:"leaving"`
}
