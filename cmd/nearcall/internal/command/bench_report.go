package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/cmd/nearcall/internal/load"
	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/machine"
	"github.com/nearcall/nearcall/internal/windows"
)

// A benchReport is what --json prints and --output writes: how it was measured, and
// one row for each setting.
type benchReport struct {
	benchMethod
	Rows []*benchRow `json:"rows"`
}

// A benchMethod says where and how all rows were measured.
type benchMethod struct {
	Date       time.Time       `json:"date"` // of the end
	Machine    machine.Machine `json:"machine"`
	Versions   benchVersions   `json:"versions"`
	GoMaxProcs int             `json:"gomaxprocs"` // of the callers
	Address    string          `json:"address"`
	Spin       string          `json:"spin,omitempty"` // how callers wait for shared memory
	Function   string          `json:"function"`
	Shared     bool            `json:"shared"`
	Rate       float64         `json:"rate,omitempty"` // that was asked for
	Rounds     int             `json:"rounds"`
	DurationNs time.Duration   `json:"duration_ns"` // asked for, in all rounds together
	WarmUpNs   time.Duration   `json:"warm_up_ns"`  // in each round
}

// benchVersions are those of the command, which calls.
type benchVersions struct {
	Nearcall string `json:"nearcall"`
	Go       string `json:"go"`
}

// A benchRow is a setting and what was measured of it.
type benchRow struct {
	Callers      int  `json:"callers"`
	PayloadBytes *int `json:"payload_bytes,omitempty"`
	// Transport is what the calls really went by; what was asked for where they failed.
	Transport string `json:"transport,omitempty"`
	// Connections of all rounds are counted by their transport where it was not the
	// same for all.
	Connections map[string]int `json:"connections,omitempty"`
	// Failed is why it could not be measured; then there are no figures.
	Failed string `json:"failed,omitempty"`
	*benchFigures
}

// benchFigures are those of all rounds together.
type benchFigures struct {
	ElapsedNs   time.Duration `json:"elapsed_ns"`
	Calls       uint64        `json:"calls"`        // that succeeded
	FailedCalls uint64        `json:"failed_calls"` // neither timed nor in per_s
	Failure     string        `json:"failure,omitempty"`
	Missed      uint64        `json:"missed"` // due at the rate and never begun
	PerS        float64       `json:"per_s"`
	// Windows are left out where the calls were stopped within the first.
	Windows *benchWindows `json:"windows,omitempty"`

	MinNs  time.Duration `json:"min_ns"`
	MeanNs time.Duration `json:"mean_ns"`
	P50Ns  time.Duration `json:"p50_ns"`
	P90Ns  time.Duration `json:"p90_ns"`
	P99Ns  time.Duration `json:"p99_ns"`
	P999Ns time.Duration `json:"p999_ns"`
	MaxNs  time.Duration `json:"max_ns"`

	Histogram benchHistogram `json:"histogram"`

	CallerCPUNs time.Duration `json:"caller_cpu_ns_per_call"`
	// Left out where it cannot be read.
	ServerCPUNs *time.Duration `json:"server_cpu_ns_per_call,omitempty"`

	// The rounds' own, in the order in which they ran; p50 of those with calls that
	// succeeded.
	P50NsRounds []time.Duration `json:"p50_ns_rounds"`
	PerSRounds  []float64       `json:"per_s_rounds"`
}

// benchWindows are the calls in each of the times of that length, one after the other.
type benchWindows struct {
	LengthNs time.Duration `json:"length_ns"`
	windows.Rates
	PerS []float64 `json:"per_s"` // in the order in which they were
}

func windowsOf(r *load.Result) *benchWindows {
	if len(r.Windows) == 0 {
		return nil
	}
	w := &benchWindows{LengthNs: r.WindowLength, Rates: windows.RatesOf(r.Windows, r.WindowLength)}
	for _, count := range r.Windows {
		w.PerS = append(w.PerS, windows.PerSecond(count, r.WindowLength))
	}
	return w
}

// A benchHistogram is how many calls are in each class: ten a decade, from the first
// that is not empty to the last.
type benchHistogram struct {
	LowerNs []int64 `json:"lower_ns"` // the least of each class
	Counts  []int64 `json:"counts"`
}

func (b *benching) report(target, function string, settings []*benchSetting) *benchReport {
	report := &benchReport{benchMethod: benchMethod{
		Date: time.Now().UTC().Truncate(time.Second), Machine: machine.This(),
		Versions:   benchVersions{Nearcall: client.Version, Go: runtime.Version()},
		GoMaxProcs: runtime.GOMAXPROCS(0), Address: target, Function: function, Shared: b.shared,
		Rate: b.rate, Rounds: b.rounds, DurationNs: b.duration, WarmUpNs: b.warmUp,
	}}
	if parsed, err := address.Parse(target, true); err == nil && parsed.Network == "unix" {
		report.Spin = parsed.Spin.String()
	}
	for _, s := range settings {
		report.Rows = append(report.Rows, s.row())
	}
	return report
}

func (s *benchSetting) row() *benchRow {
	row := &benchRow{Callers: s.callers, PayloadBytes: s.payloadBytes}
	if s.failure != nil {
		row.Transport, row.Failed = asClientTells[s.transport], bare(s.failure)
		return row
	}
	row.Transport = transportsText(s.connections)
	if len(s.connections) > 1 {
		row.Connections = s.connections
	}
	l, made := &s.Latency, time.Duration(max(s.Latency.Count()+s.Failed, 1))
	f := &benchFigures{
		ElapsedNs: s.Elapsed, Calls: l.Count(), FailedCalls: s.Failed, Missed: s.Missed, PerS: perSecond(&s.Result), Windows: windowsOf(&s.Result),
		MinNs: l.Min(), MeanNs: l.Mean(), MaxNs: l.Max(),
		P50Ns: l.Percentile(0.5), P90Ns: l.Percentile(0.9), P99Ns: l.Percentile(0.99), P999Ns: l.Percentile(0.999),
		CallerCPUNs: s.callerCPU / made, P50NsRounds: s.p50Rounds, PerSRounds: s.perSRounds,
	}
	f.Histogram.LowerNs, f.Histogram.Counts = l.Decades()
	if s.serverCPU != nil {
		each := *s.serverCPU / made
		f.ServerCPUNs = &each
	}
	if s.Failure != nil {
		f.Failure = bare(s.Failure)
	}
	row.benchFigures = f
	return row
}

// encode writes the report on one line. What is of one setting is one object.
func (r *benchReport) encode(to io.Writer) error {
	var object any = r
	if len(r.Rows) == 1 {
		object = struct {
			benchMethod
			*benchRow
		}{r.benchMethod, r.Rows[0]}
	}
	return json.NewEncoder(to).Encode(object)
}

// write writes the report into a file of its own, and says where it is.
func (r *benchReport) write(folder string, say io.Writer) error {
	file, err := createNew(filepath.Join(folder, r.Date.Format("2006-01-02-150405")+"-"+r.Machine.Slug()), ".json")
	if err != nil {
		return err
	}
	if err := r.encode(file); err != nil {
		file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(say, "wrote", file.Name())
	return err
}

// createNew creates a file of that name or, where there is one, of the first with a
// number behind it: what was measured before, perhaps in the same second, is not
// overwritten.
func createNew(name, extension string) (*os.File, error) {
	for path, n := name+extension, 2; ; n++ {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if !errors.Is(err, fs.ErrExist) {
			return file, err
		}
		path = fmt.Sprintf("%s-%d%s", name, n, extension)
	}
}
