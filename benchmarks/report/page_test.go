package report_test

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
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
	r.Machine = result.Machine{CPU: "A <fast> & new CPU", CPUs: 2, Kernel: "6.1", SMT: "1"}
	add := func(group, name string, size, callers int, ns int64) {
		r.Rows = append(r.Rows, measuredRow(group, name, size, callers, ns))
	}
	for _, callers := range []int{64, 1, 4, 16} {
		add("processes", fmt.Sprintf("nearcall-c-shm-%d-processes", callers), 64, callers, int64(300*callers))
		add("processes", fmt.Sprintf("nearcall-c-socket-%d-processes", callers), 64, callers, int64(5_000*callers))
	}
	for i, name := range report.Wants().Rows { // those that call the same function take turns
		last := name[strings.LastIndexByte(name, '-')+1:]
		callers, err := strconv.Atoi(last)
		if err != nil {
			callers = 1
		}
		name, bytes, sized := strings.Cut(name, ":")
		size := 64
		if sized {
			size, _ = strconv.Atoi(bytes)
		}
		if last != "processes" {
			add("others-"+last, name, size, callers, int64(200*(i+1)))
		}
	}
	for i, name := range []string{"nearcall-c-shm", "nearcall-c-socket", "floor-go-socket", "floor-c-socket", "memcpy"} {
		add("large", name, 4096, 1, int64(1000*(i+1)))
		add("larger", name, 65536, 1, int64(9000*(i+1)))
	}
	for i, way := range []string{"nearcall-go-shm", "nearcall-go-socket", "grpc", "netrpc"} {
		for _, group := range []struct{ size, callers int }{{64, 1}, {64, 16}, {4096, 1}, {4096, 16}} {
			name := fmt.Sprintf("%s-%d-%d", way, group.size, group.callers)
			add("peers-"+name[len(way)+1:], "peer-"+name, group.size, group.callers, int64((i+1)*group.size*100))
		}
	}
	add("peers-cold", "peer-grpc-cold-caller", 64, 1, 9_000_000)
	for i := range r.Rows {
		r.Rows[i].Sustained = &result.Sustained{WindowMS: 250, PerSWindows: []float64{2e5, 3e5, 1e5 * float64(i+1)}}
	}
	for _, busy := range []int{10, 0, 5} {
		for i, name := range []string{"cgo-first", "cgo-first-alone", "cgo-later", "shm-call"} {
			add("cgo", fmt.Sprintf("%s-busy-%d", name, busy), 0, 1, int64(100*(i+1)))
		}
	}
	for _, way := range report.PublishedWays() {
		for _, runs := range report.PublishedRuns {
			r.Measures = append(r.Measures, result.Measure{Name: report.ResidentMeasure(way, runs), Value: 12_345, Unit: "ns"})
		}
	}
	r.Peers = []result.Peer{{Name: "grpc", Version: "v9.8.7", Language: "Go", Connections: "one for all <callers>", Configuration: "as it comes.", Documentation: "https://example.org/a?b=c"}}
	return r
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
	wantIn(t, page,
		"A &lt;fast&gt; &amp; new CPU", `id="published-many"`, `id="peers-4096"`, "peers-cold", "▄█▄",
		"8,025,350/s", "213 / 949 / 4536 / 1854 / 577", "0.00718", "111.1 us", "113,940", "86258", "172994", // one of each published set
		"12,345", "Nearcall, Go, shared memory", "2,982 us", "here, 10 busy", ">Go; one for all &lt;callers&gt;<", "v9.8.7", `<a href="https://example.org/a?b=c">`,
		"What is not the same for all", "two CPUs share a core", "prefers-color-scheme: dark", `name="viewport"`)
	if missing := strings.Count(page, `class="missing`); missing != 0 {
		t.Errorf("%d figures are not measured, and all are there", missing)
	}
	if charts := strings.Count(page, "<svg "); charts != 13 { // over time 3, of ways 1, by callers 5, by sizes 2, of peers 2
		t.Errorf("%d charts", charts)
	}
}

// Machines with many CPUs do not have a row for each number of them.
func TestBusyProcessorsAreThoseOfTheRows(t *testing.T) {
	_, page := written(t, everything())
	at := -1
	for _, busy := range []int{0, 5, 10} {
		next := strings.Index(page, fmt.Sprintf(">here, %d busy<", busy))
		if next <= at {
			t.Errorf("the column of %d busy is at %d, that before it at %d", busy, next, at)
		}
		at = next
	}
}

func TestChartsNameWhatTheyLack(t *testing.T) {
	r := everything()
	*rowOf(r, "nearcall-c-shm-4-processes") = result.Row{Name: "nearcall-c-shm-4-processes", Size: 64, Callers: 4, Failed: "it died"}
	const want = "not in the picture: shared memory allowed at 4."
	_, page := written(t, r)
	wantIn(t, page, want)
	wantIn(t, shown(t, report.Measured, r), want)
}

func TestPageNeedsNothingElse(t *testing.T) {
	_, page := written(t, everything())
	for _, pattern := range []string{`<script`, `<link`, `<img`, `@import`, `url\(`, `\ssrc=`, `<[^a][^>]*\shref=`, `\shref="(?:[^#h]|h[^t])`, `\sxlink:href`} {
		if found := regexp.MustCompile(pattern).FindString(page); found != "" {
			t.Errorf("the page has %q", found)
		}
	}
}

func TestPageSaysWhatIsMissing(t *testing.T) {
	r := example()
	r.Rows = append(r.Rows, result.Row{Name: "web-direct", Failed: "no <report>: EOF"})
	r.Rows = append(r.Rows, measuredRow("peers-64-1", "peer-dbus-64-1", 64, 1, 9_000), measuredRow("peers-64-16", "peer-grpc-64-16", 64, 16, 9_000))
	r.LeftOut = append(r.LeftOut, result.LeftOut{Group: "peers-64-16, dbus", Why: "it takes too long"})
	r.Comparisons[0].NotMeasured = "a failed: it died"
	_, page := written(t, r)
	wantIn(t, page, "failed: no &lt;report&gt;: EOF", "half-cpu", "not root", "not measured: a failed: it died", "web-handed-over, ", ": this run has no such row",
		`<td colspan="4"><a class="missing absent" href="#gaps">not measured: it takes too long</a></td>`, `id="gaps"`)
	if absent := strings.Count(page, "Not measured in this run."); absent < 8 {
		t.Errorf("%d sections say that nothing of them was measured", absent)
	}
}

func TestFilesAreStaleUntilWritten(t *testing.T) {
	folder := t.TempDir()
	if err := report.Check(folder, everything()); !errors.Is(err, report.ErrStale) {
		t.Fatalf("before anything is written: %v", err)
	}
	folder, _ = written(t, everything())
	if err := report.Check(folder, everything()); err != nil {
		t.Fatalf("just written: %v", err)
	}
	// A figure that only this file shows, and the page.
	for name, change := range map[string]func(*result.Result){
		"over-time.png": func(r *result.Result) {
			rowOf(r, "nearcall-c-shm-"+report.Sustained).Sustained.PerSWindows[0] /= 2
		},
		"distributions.png": func(r *result.Result) { rowOf(r, "nearcall-c-shm").Histogram.Counts[1] /= 2 },
		"callers.png":       func(r *result.Result) { rowOf(r, "nearcall-c-shm-4-processes").PerS /= 2 },
		"sizes.png":         func(r *result.Result) { rowOf(r, "floor-c-socket").P50NS /= 2 },
		report.PageName:     func(r *result.Result) { rowOf(r, "web-direct").P50NS++; rowOf(r, "web-direct").PerS++ },
	} {
		other := everything()
		change(other)
		if err := report.Check(folder, other); !errors.Is(err, report.ErrStale) || !strings.Contains(err.Error(), name) {
			t.Errorf("with another figure %s is not stale: %v", name, err)
		}
	}
}

// Another processor may round otherwise what is drawn, and another version of Go may
// compress it otherwise.
func TestPicturesAreComparedByWhatTheyShow(t *testing.T) {
	folder, _ := written(t, everything())
	path := filepath.Join(folder, "sizes.png")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	for steps, stale := range map[uint8]bool{0: false, 2: false, 3: true, 100: true} {
		drawn := image.NewNRGBA(picture.Bounds())
		draw.Draw(drawn, drawn.Bounds(), picture, picture.Bounds().Min, draw.Src)
		at := drawn.NRGBAAt(1, 1) // the ground, which is white
		at.G -= steps
		drawn.SetNRGBA(1, 1, at)
		var out bytes.Buffer
		if err := errors.Join((&png.Encoder{CompressionLevel: png.NoCompression}).Encode(&out, drawn), os.WriteFile(path, out.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := report.Check(folder, everything()); errors.Is(err, report.ErrStale) != stale {
			t.Errorf("with a pixel that is %d of 255 darker: %v", steps, err)
		}
	}
	if err := os.WriteFile(path, []byte("no picture"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := report.Check(folder, everything()); !errors.Is(err, report.ErrStale) {
		t.Errorf("what is no picture: %v", err)
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
	if err := report.Check(folder, example()); !strings.Contains(fmt.Sprint(err), "callers.png") {
		t.Errorf("a picture that the result has no rows for is not stale: %v", err)
	}
	if err := errors.Join(report.Write(folder, example()), report.Check(folder, example())); err != nil {
		t.Errorf("just written: %v", err)
	}
}
