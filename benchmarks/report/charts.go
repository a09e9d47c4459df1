package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
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

// axes are what lines are drawn against, and show.
var axes = map[string]struct {
	of    func(result.Row) float64
	label func(float64) string
}{
	"callers at once":  {func(r result.Row) float64 { return float64(r.Callers) }, chart.Count},
	"payload":          {func(r result.Row) float64 { return float64(r.Size) }, chart.Bytes},
	"calls per second": {func(r result.Row) float64 { return r.PerS }, chart.Rate},
	"p50 of a call":    {func(r result.Row) float64 { return float64(r.P50NS) }, chart.Time},
	"p99 of a call":    {func(r result.Row) float64 { return float64(r.P99NS) }, chart.Time},
}

// draw draws a chart; false if there is nothing that it shows.
func (r run) draw(d drawing) (Figure, bool, error) {
	var lines []chart.Line
	var bands []chart.Band
	var missing []string
	for _, w := range d.ways {
		switch row, _ := r.find(w.row); {
		case d.x == "time":
			if row.Failed == "" && row.Sustained != nil && len(row.Sustained.PerSWindows) > 0 {
				lines = append(lines, timeline(w.says, row.Sustained))
			} else {
				missing = append(missing, w.says)
			}
		case d.x != "":
			l, without := r.line(w, d)
			if len(l.X) > 1 {
				lines = append(lines, l)
			} else if len(without) == 0 {
				without = []string{w.says}
			}
			missing = append(missing, without...)
		case row.Histogram != nil && len(row.Histogram.Counts) > 0:
			bands = append(bands, chart.Band{Name: w.says, Lower: row.Histogram.LowerNS, Counts: row.Histogram.Counts,
				Min: row.MinNS, P50: row.P50NS, P99: row.P99NS, P999: row.P999NS, Max: row.MaxNS})
		default:
			missing = append(missing, w.says)
		}
	}
	if len(lines)+len(bands) == 0 {
		return Figure{}, false, nil
	}
	f := Figure{}
	if len(missing) > 0 {
		f.Missing = "Not measured, and so not in the picture: " + strings.Join(missing, ", ") + "."
	}
	title := strings.Join(d.title, "\n")
	var err error
	switch d.x {
	case "":
		f.Chart, err = chart.Bands(title, bands)
	case "time":
		f.Chart, err = chart.Timeline(title, chart.Axis{Says: d.x, Label: chart.Seconds}, chart.Axis{Says: d.y, Label: axes[d.y].label}, lines)
	default:
		f.Chart, err = chart.Lines(title, chart.Axis{Says: d.x, Label: axes[d.x].label}, chart.Axis{Says: d.y, Label: axes[d.y].label}, lines)
	}
	return f, true, err
}

// line is a way's line, and the rows that it lacks. It needs two points.
func (r run) line(w way, d drawing) (l chart.Line, missing []string) {
	x, y := axes[d.x], axes[d.y]
	l.Name = w.says
	var of []result.Row
	pattern := w.pattern()
	for _, row := range r.Rows {
		if !pattern.MatchString(row.Name) {
			continue
		}
		if row.Failed == "" && x.of(row) > 0 && y.of(row) > 0 {
			of = append(of, row)
		} else {
			missing = append(missing, fmt.Sprintf("%s at %s", w.says, x.label(x.of(row))))
		}
	}
	slices.SortStableFunc(of, func(a, b result.Row) int { return cmp.Compare(x.of(a), x.of(b)) })
	for _, row := range of {
		if last := len(l.X) - 1; last >= 0 && l.X[last] == x.of(row) {
			continue // the first that was measured stands
		}
		l.X, l.Y = append(l.X, x.of(row)), append(l.Y, y.of(row))
	}
	return l, missing
}

// timeline is a row's windows, each at its end. One without a call is drawn as if it had
// one, for a logarithmic axis has no 0.
func timeline(says string, s *result.Sustained) chart.Line {
	l := chart.Line{Name: says}
	seconds := float64(s.WindowMS) / 1000
	for i, perS := range s.PerSWindows {
		l.X, l.Y = append(l.X, float64(i+1)*seconds), append(l.Y, max(perS, 1/seconds))
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
