package command

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/load"
)

// A benchReport is what --json prints.
type benchReport struct {
	Address   string        `json:"address"`
	Function  string        `json:"function"`
	Transport string        `json:"transport"`
	Callers   int           `json:"callers"`
	Shared    bool          `json:"shared"`
	Rate      float64       `json:"rate,omitempty"` // that was asked for
	ElapsedNs time.Duration `json:"elapsed_ns"`
	Calls     uint64        `json:"calls"` // that succeeded
	Failed    uint64        `json:"failed"`
	PerS      float64       `json:"per_s"`

	MinNs  time.Duration `json:"min_ns"`
	MeanNs time.Duration `json:"mean_ns"`
	P50Ns  time.Duration `json:"p50_ns"`
	P90Ns  time.Duration `json:"p90_ns"`
	P99Ns  time.Duration `json:"p99_ns"`
	P999Ns time.Duration `json:"p999_ns"`
	MaxNs  time.Duration `json:"max_ns"`

	CallerCPUNs time.Duration `json:"caller_cpu_ns_per_call"`
	// Left out where it cannot be read.
	ServerCPUNs *time.Duration `json:"server_cpu_ns_per_call,omitempty"`
}

func (b *benching) report(address, function, transport string, r *load.Result) *benchReport {
	l := &r.Latency
	return &benchReport{
		Address: address, Function: function, Transport: transport,
		Callers: b.callers, Shared: b.shared, Rate: b.rate, ElapsedNs: r.Elapsed,
		Calls: l.Count(), Failed: r.Failed, PerS: float64(l.Count()) / r.Elapsed.Seconds(),
		MinNs: l.Min(), MeanNs: l.Mean(), MaxNs: l.Max(),
		P50Ns: l.Percentile(0.5), P90Ns: l.Percentile(0.9), P99Ns: l.Percentile(0.99), P999Ns: l.Percentile(0.999),
	}
}

// addCPU divides what was used between two moments by the calls, failed ones included.
func (r *benchReport) addCPU(before, after cpuUse) {
	made := time.Duration(max(r.Calls+r.Failed, 1))
	r.CallerCPUNs = (after.caller - before.caller) / made
	if before.serverKnown && after.serverKnown {
		each := (after.server - before.server) / made
		r.ServerCPUNs = &each
	}
}

func (b *benching) print(r *benchReport) error {
	if b.json {
		return json.NewEncoder(b.out).Encode(r)
	}
	s := styleFor(b.out)
	fmt.Fprintf(b.out, "%s by %s, %s\n", s.bold(r.Function), r.Transport, b.manner())
	row := func(name, value string) { fmt.Fprintf(b.out, "    %-11s %12s\n", name, value) }
	row("calls", fmt.Sprint(r.Calls))
	if r.Failed > 0 {
		row("failed", fmt.Sprint(r.Failed))
	}
	row("per second", fmt.Sprintf("%.0f", r.PerS))
	for _, figure := range []struct {
		name string
		took time.Duration
	}{{"p50", r.P50Ns}, {"p90", r.P90Ns}, {"p99", r.P99Ns}, {"p99.9", r.P999Ns}, {"max", r.MaxNs}} {
		row(figure.name, benchTime(figure.took))
	}
	row("CPU, caller", benchTime(r.CallerCPUNs))
	server := "not readable"
	if r.ServerCPUNs != nil {
		server = benchTime(*r.ServerCPUNs)
	}
	row("CPU, server", server)
	return nil
}

// manner says how the calls were made.
func (b *benching) manner() string {
	callers := "1 caller"
	if b.callers > 1 {
		callers = fmt.Sprintf("%d callers", b.callers)
	}
	if b.shared {
		callers += " on one connection"
	}
	if b.rate > 0 {
		callers += fmt.Sprintf(", %v calls per second", b.rate)
	}
	return fmt.Sprintf("%s, %v after %v of warm-up", callers, b.duration, b.warmUp)
}

// benchTime shows a time in microseconds, so that a column of them can be compared.
func benchTime(t time.Duration) string {
	return fmt.Sprintf("%.2f µs", float64(t)/float64(time.Microsecond))
}

const progressPeriod = 100 * time.Millisecond

// showProgress shows on a terminal how far the run is, until finish is called.
func (b *benching) showProgress() (finish func()) {
	file, ok := b.err.(*os.File)
	if !ok || !isTerminal(file) {
		return func() {}
	}
	bar := progressbar.NewOptions64(int64(b.warmUp+b.duration), progressbar.OptionSetWriter(file), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(true), progressbar.OptionSetDescription("calling"), progressbar.OptionSetElapsedTime(false))
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticks := time.NewTicker(progressPeriod)
		defer ticks.Stop()
		for begin := time.Now(); ; {
			select {
			case <-done:
				_ = bar.Finish() // clears the line
				return
			case <-ticks.C:
				_ = bar.Set64(min(int64(time.Since(begin)), int64(b.warmUp+b.duration)-1))
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
