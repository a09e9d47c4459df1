package report_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// measuredRow is a row with all its figures.
func measuredRow(group, name string, size, callers int, ns int64) result.Row {
	times := 0.25
	return result.Row{
		Name: name, Group: group, Size: size, Callers: callers, P50NS: ns, P99NS: 2 * ns, PerS: float64(callers) * 1e9 / float64(ns), Calls: 100, Rounds: 5,
		MinNS: ns / 2, MeanNS: ns + ns/10, P95NS: ns + ns/2, P999NS: 3 * ns, MaxNS: 9 * ns, StdDevNS: ns / 3, OutliersShare: 0.0123,
		CallerCPU: new(1.25), ServerCPU: new(2.5), ContextSwitchesPerCall: &times, SoftirqsPerCall: &times,
		Histogram: &result.Histogram{LowerNS: []int64{ns / 2, ns, 2 * ns}, Counts: []int64{10, 80, 10}},
	}
}

// everything is a result with a row for all that the report knows to show.
func everything() *result.Result {
	r := example()
	r.Rows, r.LeftOut = nil, nil
	r.Date = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	r.Machine = result.Machine{CPU: "A <fast> & new CPU", CPUs: 2, Kernel: "6.1"}
	add := func(group, name string, size, callers int, ns int64) {
		r.Rows = append(r.Rows, measuredRow(group, name, size, callers, ns))
	}
	for i, name := range []string{"nearcall-c-embed", "nearcall-perl-embed-typed", "nearcall-c-shm", "nearcall-c-socket", "floor-go-socket", "floor-c-socket", "simple-json"} {
		add("small", name, 64, 1, int64(100+900*i*i))
		add("large-4096", name, 4096, 1, int64(300+1000*i*i))
	}
	for _, function := range report.PublishedFunctions {
		for i, way := range []string{"alone", "embed", "embed-child", "shm", "socket", "simple", "simple-reconnect", "simple-reconnect-eventloop"} {
			add("from-perl", "perl-"+way+"-"+function, 0, 1, int64(200*(i+1)))
			add("from-elsewhere", "python-"+way+"-"+function, 0, 1, int64(200*(i+1)))
		}
		add("from-elsewhere", "c-embed-"+function, 0, 1, 100)
		add("from-elsewhere", "cgo-out-"+function, 0, 1, 50)
		r.Measures = append(r.Measures, result.Measure{Name: "go_itself_" + function, Value: 1.5, Unit: "ns"})
		for i, server := range []string{"shm", "socket", "eventloop"} {
			for _, callers := range report.ManyCallers {
				add("many", fmt.Sprintf("many-%s-%s-%d", server, function, callers), 0, callers, int64(20_000*(i+1)))
			}
		}
	}
	for _, name := range []string{"transport-unix-500", "transport-tcp-500", "web-direct", "web-handed-over", "web-nginx-proxy", "web-nginx-proxy-plain"} {
		add("others", name, 0, 1, 60_000)
	}
	for _, way := range report.PublishedWays() {
		for _, runs := range report.PublishedRuns {
			r.Measures = append(r.Measures, result.Measure{Name: report.ResidentMeasure(way, runs), Value: 12_345, Unit: "ns"})
		}
	}
	for busy := range 3 {
		for i, name := range []string{"cgo-first", "cgo-first-alone", "cgo-later", "shm-call"} {
			add("cgo", fmt.Sprintf("%s-busy-%d", name, busy), 0, 1, int64(100*(i+1)))
		}
	}
	addPoller(add)
	addCallers(add)
	return r
}

func addPoller(add func(group, name string, size, callers int, ns int64)) {
	for i, name := range []string{"oneshot", "oneshot-timeout", "persistent", "persistent-timeout"} {
		for n, way := range []string{"tcp", "unix", "shm"} {
			if way == "shm" && strings.HasPrefix(name, "oneshot") {
				continue // it has none
			}
			for m, engine := range []string{"goroutine", "eventloop"} {
				for _, processors := range report.Processors {
					add("oneshot", fmt.Sprintf("%s-%s-%s-%d", name, way, engine, processors), 0, 1, int64(1_000*(i+1)*(n+1)*(m+1)*processors))
				}
			}
		}
	}
}

func addCallers(add func(group, name string, size, callers int, ns int64)) {
	for _, callers := range []int{64, 1, 4} {
		add("processes", "nearcall-c-shm-"+report.ProcessesSuffix(callers), 64, callers, int64(300*callers))
		add("processes", "nearcall-c-socket-"+report.ProcessesSuffix(callers), 64, callers, int64(5_000*callers))
	}
	for _, size := range []int{64, 4096} {
		for _, callers := range []int{1, 16} {
			for i, name := range []string{"nearcall-go-shm", "nearcall-go-socket", "grpc", "netrpc"} {
				add(fmt.Sprintf("peers-%d-%d", size, callers), fmt.Sprintf("peer-%s-%d-%d", name, size, callers), size, callers, int64((i+1)*size*100))
			}
		}
	}
	add("peers-cold", "peer-grpc-cold-caller", 64, 1, 9_000_000)
}

// written writes what is made of a result and returns the folder and the page.
func written(t *testing.T, r *result.Result) (folder, page string) {
	t.Helper()
	folder = t.TempDir()
	if err := report.Write(folder, r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, report.PageName))
	if err != nil {
		t.Fatal(err)
	}
	return folder, string(text)
}

func TestPageShowsEverything(t *testing.T) {
	_, page := written(t, everything())
	for _, want := range []string{
		"A &lt;fast&gt; &amp; new CPU", `id="many"`, `id="peers-4096"`, "peers-cold",
		"8,025,350/s", "0.00718", "111.1 us", "113,940", "86258", "172994", // one of each published set
		"12,345", "Nearcall, shared memory", "prefers-color-scheme: dark", `name="viewport"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	if missing := strings.Count(strings.ToLower(page), "not measured"); missing != 0 {
		t.Errorf("%d figures are not measured, and all are there", missing)
	}
	// The chart of the main ways, one of each of ten groups, three by callers, and so on.
	if charts := strings.Count(page, "<svg "); charts < 20 {
		t.Errorf("%d charts", charts)
	}
}

func TestPageNeedsNothingElse(t *testing.T) {
	_, page := written(t, everything())
	for _, pattern := range []string{`<script`, `<link`, `<img`, `@import`, `url\(`, `\ssrc=`, `\shref="[^#]`, `\sxlink:href`} {
		if found := regexp.MustCompile(pattern).FindString(page); found != "" {
			t.Errorf("the page has %q", found)
		}
	}
}

func TestPageSaysWhatIsMissing(t *testing.T) {
	r := example()
	r.Rows = append(r.Rows, result.Row{Name: "web-direct", Failed: "no <report>: EOF"})
	r.Comparisons[0].NotMeasured = "a failed: it died"
	_, page := written(t, r)
	for _, want := range []string{"failed: no &lt;report&gt;: EOF", "half-cpu", "not root", "not measured: a failed: it died"} {
		if !strings.Contains(strings.ReplaceAll(page, `<span class="missing">failed:</span> `, "failed: "), want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	if absent := strings.Count(page, "Not measured in this run."); absent < 8 {
		t.Errorf("%d sections say that nothing of them was measured", absent)
	}
}

func TestFilesAreStaleUntilWritten(t *testing.T) {
	folder := t.TempDir()
	if err := report.Check(folder, everything()); !errors.Is(err, report.ErrFileStale) {
		t.Fatalf("before anything is written: %v", err)
	}
	folder, _ = written(t, everything())
	if err := report.Check(folder, everything()); err != nil {
		t.Fatalf("just written: %v", err)
	}
	// A figure that only this file shows, and the page.
	for name, change := range map[string]func(*result.Result){
		report.DistributionsName: func(r *result.Result) { rowOf(r, "nearcall-c-shm").Histogram.Counts[1] /= 2 },
		report.CallersName:       func(r *result.Result) { rowOf(r, "nearcall-c-shm-4-processes").PerS /= 2 },
		report.SizesName:         func(r *result.Result) { rowOf(r, "floor-c-socket").P50NS /= 2 },
		report.PageName:          func(r *result.Result) { rowOf(r, "web-direct").P50NS++; rowOf(r, "web-direct").PerS++ },
	} {
		other := everything()
		change(other)
		if err := report.Check(folder, other); !errors.Is(err, report.ErrFileStale) || !strings.Contains(err.Error(), name) {
			t.Errorf("with another figure %s is not stale: %v", name, err)
		}
	}
}

func rowOf(r *result.Result, name string) *result.Row {
	for i := range r.Rows {
		if r.Rows[i].Name == name {
			return &r.Rows[i]
		}
	}
	panic("there is no row " + name)
}

func TestPictureOfAnotherResultIsStale(t *testing.T) {
	folder, _ := written(t, everything())
	if err := report.Check(folder, example()); !strings.Contains(fmt.Sprint(err), report.CallersName) {
		t.Errorf("a picture that the result has no rows for is not stale: %v", err)
	}
	if err := report.Write(folder, example()); err != nil {
		t.Fatal(err)
	}
	if err := report.Check(folder, example()); err != nil {
		t.Errorf("just written: %v", err)
	}
}

func TestReadmeShowsPictures(t *testing.T) {
	path := writeReadme(t, readme)
	if err := report.UpdateReadme(path, everything()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{report.DistributionsName, report.CallersName, report.SizesName, report.PageName, "| Go library in the Perl process | 2,500,000/s | 8,025,350/s |"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}
