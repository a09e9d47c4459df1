package chart

import (
	"math"
	"slices"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Band is the distribution of one way's times, in ns: how many samples are in each
// class, and the least of each class.
type Band struct {
	Name                     string
	Lower, Counts            []int64
	Min, P50, P99, P999, Max int64
}

// Bands are distributions one above the other, against one logarithmic axis of time. A
// class is as high as the logarithm of its samples, so that the tail is seen beside the
// crowd; the fullest of each distribution is as high as that of any other.
func Bands(title string, bands []Band) (Chart, error) {
	c := newChart(title, vg.Length(len(bands))*bandHigh+axisHigh)
	c.plot.X.Label.Text = "time of a call"
	c.plot.Add(&plotter.Grid{Vertical: gridLine})
	names := make([]string, len(bands))
	marks := make([]plotter.XYs, 3)
	for i, band := range bands {
		at := len(bands) - 1 - i // the first is on top
		names[at] = band.Name
		outline, err := plotter.NewPolygon(band.outline(float64(at)))
		if err != nil {
			return c, err
		}
		outline.Color, outline.LineStyle = series[i%len(series)], draw.LineStyle{Color: series[i%len(series)], Width: thin}
		c.plot.Add(outline)
		for n, ns := range []int64{band.P50, band.P99, band.P999} {
			marks[n] = append(marks[n], plotter.XY{X: shown(ns), Y: float64(at) - bandBelow})
		}
	}
	for n, mark := range []struct {
		name  string
		shape draw.GlyphDrawer
	}{{"p50", draw.CircleGlyph{}}, {"p99", draw.RingGlyph{}}, {"p99.9", draw.PlusGlyph{}}} {
		scatter, err := plotter.NewScatter(marks[n])
		if err != nil {
			return c, err
		}
		scatter.GlyphStyle = draw.GlyphStyle{Color: ink, Radius: vg.Points(2.5), Shape: mark.shape}
		c.plot.Add(scatter)
		c.plot.Legend.Add(" "+mark.name, scatter)
	}
	c.plot.NominalY(names...)
	c.plot.Y.Min, c.plot.Y.Max = -0.5, float64(len(bands))-0.5
	logarithmic(&c.plot.X, Time)
	return c, nil
}

// Where a band begins and ends, around the height of its name.
const bandBelow, bandAbove = 0.35, 0.4

// What takes no measurable time is shown at 1 ns.
func shown(ns int64) float64 { return float64(max(ns, 1)) }

// outline goes over a band's classes at a height.
func (b Band) outline(at float64) plotter.XYs {
	base := at - bandBelow
	most := math.Log1p(float64(slices.Max(b.Counts)))
	points := plotter.XYs{{X: b.begin(0), Y: base}}
	for i, count := range b.Counts {
		top := base + (bandBelow+bandAbove)*math.Log1p(float64(count))/most
		points = append(points, plotter.XY{X: b.begin(i), Y: top}, plotter.XY{X: b.begin(i + 1), Y: top})
	}
	return append(points, plotter.XY{X: b.begin(len(b.Counts)), Y: base})
}

// begin is where a class begins; the last ends at the longest time.
func (b Band) begin(class int) float64 {
	if class == len(b.Lower) {
		return max(shown(b.Max), shown(b.Lower[class-1]))
	}
	return max(shown(b.Lower[class]), shown(b.Min))
}
