package report

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// PlotName is the plot's file in the folder of the results.
const PlotName = "processes.svg"

// ErrPlotStale means that the plot does not show the result.
var ErrPlotStale = errors.New("it does not show benchmarks/results/latest.json; run: benchmarks/run -update-readme")

// ProcessesSuffix ends the names of rows with that many processes that call at once.
func ProcessesSuffix(count int) string { return fmt.Sprintf("%d-processes", count) }

// WritePlot writes the plot of a result into a folder, and nothing where the
// result has no rows for one.
func WritePlot(folder string, r *result.Result) error {
	if !hasPlot(r) {
		return nil
	}
	return os.WriteFile(filepath.Join(folder, PlotName), plot(r), 0o644)
}

// CheckPlot returns ErrPlotStale when WritePlot would change the file.
func CheckPlot(folder string, r *result.Result) error {
	if !hasPlot(r) {
		return nil
	}
	path := filepath.Join(folder, PlotName)
	text, err := os.ReadFile(path)
	if err == nil && !bytes.Equal(text, plot(r)) {
		err = ErrPlotStale
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// A series is what one way of calling did, by the number of processes.
type series struct {
	prefix, says, class string
	rows                []result.Row
}

func allSeries(r *result.Result) []series {
	all := []series{
		{prefix: "nearcall-c-shm-", says: "shared memory allowed", class: "memory"},
		{prefix: "nearcall-c-socket-", says: "socket only", class: "socket"},
	}
	for i := range all {
		for _, row := range r.Rows {
			if row.Name == all[i].prefix+ProcessesSuffix(row.Callers) {
				all[i].rows = append(all[i].rows, row)
			}
		}
		slices.SortFunc(all[i].rows, func(a, b result.Row) int { return cmp.Compare(a.Callers, b.Callers) })
	}
	return all
}

func hasPlot(r *result.Result) bool {
	return !slices.ContainsFunc(allSeries(r), func(s series) bool { return len(s.rows) == 0 })
}

// Places in the plot, in pixels.
const (
	plotWidth, plotHeight   = 780, 680
	plotLeft, plotRight     = 110, 750
	panelHeight             = 200
	firstPanel, secondPanel = 96, 380
)

// plot draws throughput and p99 against the number of processes.
func plot(r *result.Result) []byte {
	var out bytes.Buffer
	all := allSeries(r)
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n",
		plotWidth, plotHeight, plotWidth, plotHeight, "Throughput and p99 against the number of processes that call at once")
	out.WriteString(plotStyle)
	fmt.Fprintf(&out, `<rect class="ground" width="%d" height="%d"/>`+"\n", plotWidth, plotHeight)
	text(&out, plotLeft, 28, "start", "title", "Echo of 64 bytes from C, by the number of processes that call at once")
	legend(&out, all)
	panels := []panel{
		{top: firstPanel, says: "throughput, calls per second (logarithmic)", figure: result.FigurePerS,
			of: func(row result.Row) float64 { return row.PerS }, label: perSecondLabel},
		{top: secondPanel, says: "p99 of one call (logarithmic)", figure: result.FigureP99,
			of: func(row result.Row) float64 { return float64(row.P99NS) }, label: timeLabel},
	}
	for _, panel := range panels {
		panel.draw(&out, r, all)
	}
	text(&out, (plotLeft+plotRight)/2, plotHeight-40, "middle", "small", "processes that call at once, without a pause (logarithmic)")
	text(&out, (plotLeft+plotRight)/2, plotHeight-14, "middle", "small", caption(r))
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// plotStyle has a ground of its own, so that the plot is readable on any page.
const plotStyle = `<style>
text { font-family: system-ui, sans-serif; font-size: 13px; fill: #1f2328 }
.title { font-size: 15px; font-weight: 600 }
.small { font-size: 12px; fill: #59636e }
.ground { fill: #ffffff }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.memory { stroke: #0969da; fill: #0969da }
.socket { stroke: #bc4c00; fill: #bc4c00 }
polyline { fill: none !important; stroke-width: 2 }
polyline.socket { stroke-dasharray: 6 4 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.small { fill: #9198a1 }
.ground { fill: #0d1117 }
.grid { stroke: #3d444d }
.memory { stroke: #58a6ff; fill: #58a6ff }
.socket { stroke: #f0883e; fill: #f0883e }
}
</style>
`

func legend(out *bytes.Buffer, all []series) {
	for i, s := range all {
		x := float64(plotLeft + i*220)
		fmt.Fprintf(out, `<polyline class="%s" points="%.0f,50 %.0f,50"/>`+"\n", s.class, x, x+36)
		marker(out, s.class, x+18, 50)
		text(out, x+46, 54, "start", "", s.says)
	}
}

func caption(r *result.Result) string {
	run := "full run"
	if r.Quick {
		run = "quick run"
	}
	return fmt.Sprintf("%s, %d CPUs, kernel %s; %s of %s, median of %d rounds in turns",
		r.Machine.CPU, r.Machine.CPUs, r.Machine.Kernel, run, r.Date.Format("2006-01-02"), allSeries(r)[0].rows[0].Rounds)
}

// A panel is one figure of all series. Its scale is logarithmic, so that the same
// ratio is as high everywhere.
type panel struct {
	top    float64
	says   string
	figure string
	of     func(result.Row) float64
	label  func(float64) string
}

func (p panel) draw(out *bytes.Buffer, r *result.Result, all []series) {
	ticks := p.ticks(all)
	text(out, plotLeft, p.top-8, "start", "", p.says)
	for _, tick := range ticks {
		y := p.y(tick, ticks)
		fmt.Fprintf(out, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`+"\n", plotLeft, y, plotRight, y)
		text(out, plotLeft-8, y+4, "end", "", p.label(tick))
	}
	for _, row := range all[0].rows {
		text(out, p.x(row, all), p.top+panelHeight+18, "middle", "", fmt.Sprint(row.Callers))
		p.ratio(out, r, row, p.x(row, all))
	}
	text(out, plotLeft-8, p.top+panelHeight+36, "end", "small", "memory/socket")
	for _, s := range all {
		fmt.Fprintf(out, `<polyline class="%s" points="`, s.class)
		for _, row := range s.rows {
			fmt.Fprintf(out, "%.1f,%.1f ", p.x(row, all), p.y(p.of(row), ticks))
		}
		out.WriteString(`"/>` + "\n")
		for _, row := range s.rows {
			marker(out, s.class, p.x(row, all), p.y(p.of(row), ticks))
		}
	}
}

// ratio writes what the goal looks at below the number of processes.
func (p panel) ratio(out *bytes.Buffer, r *result.Result, row result.Row, x float64) {
	for _, c := range r.Comparisons {
		if c.Kind == result.KindRatio && c.Of == (result.Figure{Row: row.Name, Size: row.Size, Figure: p.figure}) {
			text(out, x, p.top+panelHeight+36, "middle", "small", fmt.Sprintf("%.2f", c.Value))
		}
	}
}

// x places a number of processes: each doubling is as wide as the one before.
func (panel) x(row result.Row, all []series) float64 {
	const margin = 40
	most := math.Log2(float64(all[0].rows[len(all[0].rows)-1].Callers))
	return plotLeft + margin + math.Log2(float64(row.Callers))/max(most, 1)*(plotRight-plotLeft-2*margin)
}

func (p panel) y(value float64, ticks []float64) float64 {
	low, high := math.Log10(ticks[0]), math.Log10(ticks[len(ticks)-1])
	// Nothing measured is below 1, and 0 has no logarithm.
	return p.top + panelHeight - (math.Log10(max(value, 1))-low)/(high-low)*panelHeight
}

// ticks are the powers of ten around all that the panel shows; at least two.
func (p panel) ticks(all []series) []float64 {
	low, high := math.Inf(1), 1.0
	for _, s := range all {
		for _, row := range s.rows {
			low, high = min(low, max(p.of(row), 1)), max(high, p.of(row))
		}
	}
	first := math.Floor(math.Log10(low))
	last := max(math.Ceil(math.Log10(high)), first+1)
	var ticks []float64
	for power := first; power <= last; power++ {
		ticks = append(ticks, math.Pow(10, power))
	}
	return ticks
}

func perSecondLabel(value float64) string {
	switch {
	case value >= 1e6:
		return number(value/1e6) + " M"
	case value >= 1e3:
		return number(value/1e3) + " k"
	}
	return number(value)
}

func timeLabel(ns float64) string {
	switch {
	case ns >= 1e9:
		return number(ns/1e9) + " s"
	case ns >= 1e6:
		return number(ns/1e6) + " ms"
	case ns >= 1e3:
		return number(ns/1e3) + " us"
	}
	return number(ns) + " ns"
}

func text(out *bytes.Buffer, x, y float64, anchor, class, says string) {
	fmt.Fprintf(out, `<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">`, x, y, anchor, class)
	// Into a buffer nothing fails.
	_ = xml.EscapeText(out, []byte(says))
	out.WriteString("</text>\n")
}

func marker(out *bytes.Buffer, class string, x, y float64) {
	if class == "memory" {
		fmt.Fprintf(out, `<circle class="%s" cx="%.1f" cy="%.1f" r="4"/>`+"\n", class, x, y)
		return
	}
	fmt.Fprintf(out, `<rect class="%s" x="%.1f" y="%.1f" width="8" height="8"/>`+"\n", class, x-4, y-4)
}
