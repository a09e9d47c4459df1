package result

import "github.com/nearcall/nearcall/internal/windows"

// A Row is one way to call.
type Row struct {
	Name    string `json:"name"`
	Group   string `json:"group"`   // of the rows it took turns with
	Size    int    `json:"size"`    // payload of a request in bytes
	Callers int    `json:"callers"` // calls in flight at a time

	// Failed is why the row could not be measured; then there are no figures.
	Failed string `json:"failed,omitempty"`

	// Median over all rounds.
	PerS float64 `json:"per_s"`
	// The same of the rounds' percentiles: what is set against other rows, because drift
	// of the machine hits rounds that follow each other alike.
	MedianOfRounds Percentiles `json:"median_of_rounds"`

	// Of every sample of all rounds.
	MinNS         int64      `json:"min_ns"`
	MeanNS        int64      `json:"mean_ns"`
	P50NS         int64      `json:"p50_ns"`
	P95NS         int64      `json:"p95_ns"`
	P99NS         int64      `json:"p99_ns"`
	P999NS        int64      `json:"p999_ns"`
	MaxNS         int64      `json:"max_ns"`
	StdDevNS      int64      `json:"stddev_ns"`
	OutliersShare float64    `json:"outliers_share"` // beyond mean + 3 stddev
	Histogram     *Histogram `json:"histogram,omitempty"`

	// How the calls went, as the callers said after each round; with ", " between them
	// where they went in several ways. Empty where they cannot tell or have no choice.
	Transport string `json:"transport,omitempty"`
	// What moved the server's bytes: "" is a goroutine for each connection.
	Engine     string `json:"engine,omitempty"`
	GoMaxProcs int    `json:"gomaxprocs,omitempty"` // where the row sets it
	Pinning    string `json:"pinning,omitempty"`    // where processes are held to a part of the machine
	Calls      int64  `json:"calls"`                // over all rounds
	// How many calls one sample, and so each time above, is of; left out where it is one.
	CallsPerSample int `json:"calls_per_sample,omitempty"`
	Rounds         int `json:"rounds"`
	RoundMS        int `json:"round_ms"`   // how long each was to be
	WarmUpMS       int `json:"warm_up_ms"` // before the first

	// Where calls were counted by windows. PerS is of all the time then, and MeanNS that over
	// the calls.
	Sustained *Sustained `json:"sustained,omitempty"`

	// CPU seconds per million calls. nil: not counted; 0 where there is no server.
	CallerCPU *float64 `json:"caller_cpu_s_per_million,omitempty"`
	ServerCPU *float64 `json:"server_cpu_s_per_million,omitempty"`
	// Where the row counts them: those of both processes, and the softirqs of the
	// network, which the kernel tells only of the whole machine.
	ContextSwitchesPerCall *float64 `json:"context_switches_per_call,omitempty"`
	SoftirqsPerCall        *float64 `json:"softirqs_per_call,omitempty"`

	// The rounds' own figures, in the order in which they ran.
	P50NSRounds []float64 `json:"p50_ns_rounds"`
	P99NSRounds []float64 `json:"p99_ns_rounds"`
	PerSRounds  []float64 `json:"per_s_rounds"`
}

// SlowPerS is a rate that calls through memory do not fall below while they are hot.
const SlowPerS = 200_000

// Sustained is what became of calls over time: how many ended in each window, as calls per
// second. Nothing of the rounds' time is left out.
type Sustained struct {
	WindowMS int `json:"window_ms"`
	windows.Rates
	BelowSlowShare  float64 `json:"below_slow_share"`  // of the windows, with fewer than SlowPerS
	BelowFifthShare float64 `json:"below_fifth_share"` // with less than a fifth of the best
	MeanOfP50       float64 `json:"mean_of_p50"`       // the mean of a call divided by its p50
	// Who else had the machine, and how many CPUs of it; "" and 0 where nobody had.
	Beside     string  `json:"beside,omitempty"`
	BesideCPUs float64 `json:"beside_cpus,omitempty"`
	// In the order in which they were.
	PerSWindows []float64 `json:"per_s_windows"`
}

// Percentiles are those of the calls of a round, or a median of such.
type Percentiles struct {
	P50NS int64 `json:"p50_ns"`
	P99NS int64 `json:"p99_ns"`
}

// A Histogram is how many of a row's samples are in each logarithmic class: ten
// classes a decade, from the first that is not empty to the last.
type Histogram struct {
	LowerNS []int64 `json:"lower_ns"` // the least of each class
	Counts  []int64 `json:"counts"`
}
