package request

// A State is what a resident reports of itself, as JSON in a frame's text.
type State struct {
	Program   string `json:"program"`
	ProcessID int    `json:"pid"`
	Mode      string `json:"mode"`
	StartedMS int64  `json:"started_ms"`
	IdleMS    int64  `json:"idle_ms"`
	Runs      uint64 `json:"runs"`
	Running   int    `json:"running"`
	Waiting   int    `json:"waiting"`
	Leaving   bool   `json:"leaving"`

	// What the program reads before its runs, so far as it is known.
	Reads          []string `json:"reads"` // variables
	ReadsDirectory string   `json:"reads_directory"`
	ReadsInput     bool     `json:"reads_input"`
}
