package chart

import (
	"math"
	"slices"

	"gonum.org/v1/plot"
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

// Bands are distributions one above the other, against one logarithmic axis of time.
// A class is as high as the logarithm of its samples, so that the tail is seen beside the
// crowd; the fullest of each distribution is as high as that of any other.
type Bands struct {
	Says  string
	Bands []Band
}

func (b Bands) Title() string { return b.Says }

const (
	bandHigh = 3.2 * textSize
	axisHigh = 2.4 * textSize
	// fill is how much of a band its fullest class takes; its name is above it, so that
	// the axis has the whole width.
	fill = 0.5
	// nameAt is where in a band its name ends.
	nameAt = 0.9
)

func (b Bands) size() (vg.Length, vg.Length) {
	return width, headHigh(b.Says, bandMarks()) + vg.Length(float64(len(b.Bands))*bandHigh) + axisHigh + 2*margin
}

// What takes no measurable time is shown at 1 ns.
func shown(ns int64) float64 { return float64(max(ns, 1)) }

func (b Bands) draw(to draw.Canvas) error {
	to = draw.Crop(to, margin, -margin, margin, -margin)
	rest := draw.Crop(drawLegend(drawTitle(to, b.Says), bandMarks()), 2*margin, 0, 0, 0) // half of the first label
	p := newPlot()
	var times []float64
	for _, band := range b.Bands {
		times = append(times, shown(band.Min), shown(band.Max))
	}
	logarithmic(&p.X, times, Time)
	p.Y.Min, p.Y.Max = -0.15, float64(len(b.Bands))
	p.HideY()
	p.Add(&plotter.Grid{Vertical: gridStyle})
	for i, band := range b.Bands { // the first is on top
		p.Add(drawnBand{band, float64(len(b.Bands) - 1 - i), i})
	}
	p.Draw(rest)
	return nil
}

// drawnBand draws a band with its base at a height.
type drawnBand struct {
	Band
	base   float64
	number int
}

func (b drawnBand) Plot(to draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&to)
	colour := series[b.number%len(series)]
	base := y(b.base)
	to.StrokeLine2(draw.LineStyle{Color: colour, Width: vg.Points(1)}, x(shown(b.Min)), base, x(shown(b.Max)), base)
	to.FillText(style(textSize, ink), vg.Point{X: to.Min.X, Y: y(b.base + nameAt)}, b.Name)
	most := math.Log1p(float64(slices.Max(b.Counts)))
	outline := []vg.Point{{X: x(b.lower(0)), Y: base}}
	for i, count := range b.Counts {
		top := y(b.base + fill*math.Log1p(float64(count))/most)
		outline = append(outline, vg.Point{X: x(b.lower(i)), Y: top}, vg.Point{X: x(b.lower(i + 1)), Y: top})
	}
	outline = append(outline, vg.Point{X: x(b.lower(len(b.Counts))), Y: base})
	to.FillPolygon(colour, outline)
	for _, mark := range []struct {
		at    int64
		style draw.GlyphStyle
	}{{b.P50, markP50}, {b.P99, markP99}, {b.P999, markP999}} {
		to.DrawGlyph(mark.style, vg.Point{X: x(shown(mark.at)), Y: base})
	}
}

// lower is where a class begins; the last ends at the longest time.
func (b drawnBand) lower(class int) float64 {
	if class == len(b.Lower) {
		return max(shown(b.Max), shown(b.Lower[class-1]))
	}
	return math.Max(shown(b.Lower[class]), shown(b.Min))
}

var (
	markP50  = draw.GlyphStyle{Color: ink, Radius: vg.Points(2.6), Shape: draw.CircleGlyph{}}
	markP99  = draw.GlyphStyle{Color: ink, Radius: vg.Points(2.6), Shape: draw.RingGlyph{}}
	markP999 = draw.GlyphStyle{Color: ink, Radius: vg.Points(2.6), Shape: draw.PlusGlyph{}}
)

func bandMarks() []entry {
	mark := func(name string, style draw.GlyphStyle) entry {
		return entry{name, func(to draw.Canvas, left, right, y vg.Length) {
			to.DrawGlyph(style, vg.Point{X: (left + right) / 2, Y: y})
		}}
	}
	return []entry{mark("p50", markP50), mark("p99", markP99), mark("p99.9", markP999), {"least to longest", func(to draw.Canvas, left, right, y vg.Length) {
		to.StrokeLine2(draw.LineStyle{Color: muted, Width: vg.Points(1)}, left, y, right, y)
	}}}
}
