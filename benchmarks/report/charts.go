package report

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/chart"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// A drawing is a chart as shown.txt describes it.
type drawing struct {
	id    string // SECTION/NAME
	title []string
	x, y  string // what its axes are; "" of distributions
	ways  []way
}

// A way is what a chart draws: of lines all rows whose whole name is the pattern, else the
// row of that name.
type way struct{ says, row string }

func (w way) pattern() *regexp.Regexp { return regexp.MustCompile("^" + w.row + "$") }

// A Figure is a chart, and what is missing in it.
type Figure struct {
	chart.Chart
	Missing string // in a sentence; "" if all is there
}

// measured are what axes show of a row.
var measured = map[string]func(result.Row) float64{
	"callers at once":  func(r result.Row) float64 { return float64(r.Callers) },
	"payload":          func(r result.Row) float64 { return float64(r.Size) },
	"calls per second": func(r result.Row) float64 { return r.PerS },
	"p50 of a call":    func(r result.Row) float64 { return float64(r.P50NS) },
	"p99 of a call":    func(r result.Row) float64 { return float64(r.P99NS) },
}

// axis is one with labels that suit it.
func axis(says string) chart.Axis {
	label := map[string]func(float64) string{"callers at once": chart.Count, "payload": chart.Bytes, "calls per second": chart.Rate, overTime: chart.Seconds}[says]
	if label == nil {
		label = chart.Time
	}
	return chart.Axis{Says: says, Label: label, From0: says == overTime}
}

// overTime is the axis of charts of windows.
const overTime = "time"

// draw draws a chart; false if there is nothing that it shows.
func (r run) draw(d drawing) (f Figure, ok bool, err error) {
	var lines []chart.Line
	var bands []chart.Band
	var missing []string
	for _, w := range d.ways {
		if d.x == "" {
			if row, _ := r.find(w.row); row.Histogram != nil && len(row.Histogram.Counts) > 0 {
				bands = append(bands, chart.Band{Name: w.says, Lower: row.Histogram.LowerNS, Counts: row.Histogram.Counts,
					Min: row.MinNS, P50: row.P50NS, P99: row.P99NS, P999: row.P999NS, Max: row.MaxNS})
			} else {
				missing = append(missing, w.says)
			}
			continue
		}
		l, without := r.line(w, d)
		if len(l.X) > 1 {
			lines = append(lines, l)
		} else if len(without) == 0 {
			without = []string{w.says}
		}
		missing = append(missing, without...)
	}
	if len(missing) > 0 {
		f.Missing = "Not measured, and so not in the picture: " + strings.Join(missing, ", ") + "."
	}
	switch title := strings.Join(d.title, "\n"); {
	case len(bands) > 0:
		f.Chart, err = chart.Bands(title, bands)
	case len(lines) > 0:
		f.Chart, err = chart.Lines(title, axis(d.x), axis(d.y), lines)
	}
	return f, len(bands)+len(lines) > 0, err
}

// line is a way's line, and the rows that it lacks. It needs two points.
func (r run) line(w way, d drawing) (l chart.Line, missing []string) {
	if d.x == overTime {
		row, _ := r.find(w.row)
		return timeline(w.says, row), nil
	}
	x, y := measured[d.x], measured[d.y]
	pattern := w.pattern()
	points := map[float64]float64{} // the first that was measured stands
	for _, row := range r.Rows {
		if !pattern.MatchString(row.Name) {
			continue
		}
		if row.Failed != "" || x(row) <= 0 || y(row) <= 0 {
			missing = append(missing, fmt.Sprintf("%s at %s", w.says, axis(d.x).Label(x(row))))
		} else if _, known := points[x(row)]; !known {
			points[x(row)] = y(row)
		}
	}
	l.Name, l.X = w.says, sortedKeys(points)
	for _, at := range l.X {
		l.Y = append(l.Y, points[at])
	}
	return l, missing
}

// timeline is a row's windows, each at its end. One without a call is drawn as if it had
// one, for a logarithmic axis has no 0.
func timeline(says string, row result.Row) chart.Line {
	l := chart.Line{Name: says}
	if s := row.Sustained; s != nil && row.Failed == "" {
		seconds := float64(s.WindowMS) / 1000
		for i, perS := range s.PerSWindows {
			l.X, l.Y = append(l.X, float64(i+1)*seconds), append(l.Y, max(perS, 1/seconds))
		}
	}
	return l
}

// Charts are those of a section, or the ones of that name, that have something to show.
func (r run) Charts(name string) (all []Figure, err error) {
	for _, d := range r.charts {
		if section, _, _ := strings.Cut(d.id, "/"); d.id != name && section != name {
			continue
		}
		drawn, ok, err := r.draw(d)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.id, err)
		}
		if ok {
			all = append(all, drawn)
		}
	}
	return all, nil
}
