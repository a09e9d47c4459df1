package report_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// withProcesses is a result with rows for the plot, out of order.
func withProcesses() *result.Result {
	r := &result.Result{
		Schema: result.Schema, Quick: true, Date: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC),
		Machine: result.Machine{CPU: "A <fast> & new CPU", CPUs: 2, Kernel: "6.1"},
	}
	for _, count := range []int{64, 1, 4} {
		r.Rows = append(r.Rows,
			result.Row{Name: "nearcall-c-shm-" + report.ProcessesSuffix(count), Size: 64, Callers: count, Rounds: 25, PerS: 1_400_000, P99NS: int64(count) * 1000},
			result.Row{Name: "nearcall-c-socket-" + report.ProcessesSuffix(count), Size: 64, Callers: count, Rounds: 25, PerS: 90_000, P99NS: 50_000})
	}
	r.Comparisons = []result.Comparison{{
		Kind: result.KindRatio, Value: 15.55,
		Of:   result.Figure{Row: "nearcall-c-shm-1-processes", Size: 64, Figure: result.FigurePerS},
		With: &result.Figure{Row: "nearcall-c-socket-1-processes", Size: 64, Figure: result.FigurePerS},
	}}
	return r
}

func plotOf(t *testing.T, r *result.Result) string {
	t.Helper()
	folder := t.TempDir()
	if err := report.WritePlot(folder, r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, report.PlotName))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPlotIsWellFormedAndSaysWhatItShows(t *testing.T) {
	text := plotOf(t, withProcesses())
	decoder := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in:\n%s", err, text)
		}
	}
	for _, want := range []string{
		"A &lt;fast&gt; &amp; new CPU, 2 CPUs, kernel 6.1; quick run of 2026-11-21, median of 25 rounds",
		"calls per second", "p99", "shared memory allowed", "socket only", ">15.55<", ">64<", ">10 M<", ">100 us<", "prefers-color-scheme: dark",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

// points returns what the lines of the panels run through; the legend's are left out.
func points(t *testing.T, text string) [][][2]float64 {
	t.Helper()
	var lines [][][2]float64
	for _, rest := range strings.Split(text, `points="`)[1:] {
		list, _, _ := strings.Cut(rest, `"`)
		var line [][2]float64
		for point := range strings.FieldsSeq(list) {
			x, y, _ := strings.Cut(point, ",")
			var pair [2]float64
			var errs [2]error
			pair[0], errs[0] = strconv.ParseFloat(x, 64)
			pair[1], errs[1] = strconv.ParseFloat(y, 64)
			if err := errors.Join(errs[:]...); err != nil {
				t.Fatal(err)
			}
			line = append(line, pair)
		}
		lines = append(lines, line)
	}
	if len(lines) != 6 {
		t.Fatalf("%d lines, want 2 in the legend and 2 in each of 2 panels", len(lines))
	}
	return lines[2:]
}

func TestPlotPlacesPoints(t *testing.T) {
	lines := points(t, plotOf(t, withProcesses()))
	for _, line := range lines {
		for i, point := range line {
			if point[0] < 110 || point[0] > 750 || point[1] < 96 || point[1] > 580 {
				t.Errorf("a point lies outside: %v", point)
			}
			if i > 0 && point[0] <= line[i-1][0] {
				t.Errorf("points do not go from few to many processes: %v", line)
			}
		}
	}
	// More calls per second is higher up, and so is a longer time.
	if lines[0][0][1] >= lines[1][0][1] {
		t.Error("1.4 million calls per second is not above 90,000")
	}
	// 1 us, 4 us and 64 us against 50 us: the lines cross before the last.
	memory, socket := lines[2], lines[3]
	if memory[0][1] <= socket[0][1] || memory[2][1] >= socket[2][1] {
		t.Errorf("the lines do not cross: %v, %v", memory, socket)
	}
}

func TestPlotIsStaleUntilWritten(t *testing.T) {
	folder := t.TempDir()
	if report.CheckPlot(folder, withProcesses()) == nil {
		t.Error("a plot that is not there was accepted")
	}
	if err := report.WritePlot(folder, withProcesses()); err != nil {
		t.Fatal(err)
	}
	if err := report.CheckPlot(folder, withProcesses()); err != nil {
		t.Errorf("just written: %v", err)
	}
	other := withProcesses()
	other.Rows[0].PerS /= 2
	if err := report.CheckPlot(folder, other); !errors.Is(err, report.ErrPlotStale) {
		t.Errorf("of another result: %v", err)
	}
}

func TestNoPlotWithoutRows(t *testing.T) {
	folder := t.TempDir()
	if err := errors.Join(report.WritePlot(folder, example()), report.CheckPlot(folder, example())); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, report.PlotName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a plot was written: %v", err)
	}
}
