package chart

import (
	"slices"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Line is what one way did, by what the X axis says. Values are more than 0.
type Line struct {
	Name string
	X, Y []float64
}

// Lines are lines against two logarithmic axes. X has a label at each of its values.
type Lines struct {
	Says           string
	X, Y           string // what the axes are
	XLabel, YLabel func(float64) string
	Lines          []Line
	// Timeline says that X is time, from 0 on: its axis is linear, has few labels, and points
	// have no marks, as there are many.
	Timeline bool
}

func (l Lines) Title() string { return l.Says }

// plotHigh is how high axes and what they hold are.
const plotHigh = 240

func (l Lines) size() (vg.Length, vg.Length) {
	return width, headHigh(l.Says, l.legend()) + plotHigh + 2*margin
}

// dashes tell lines of one colour apart.
var dashes = [][]vg.Length{nil, {4, 2}, {1.5, 1.5}, {6, 2, 1.5, 2}}

// look is how the line of that number is told from others: eight colours, then the
// same with dashes, of three kinds.
func look(n int) (draw.LineStyle, draw.GlyphStyle) {
	c := series[n%len(series)]
	line := draw.LineStyle{Color: c, Width: vg.Points(1.6), Dashes: dashes[n/len(series)%len(dashes)]}
	shapes := []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}}
	return line, draw.GlyphStyle{Color: c, Radius: vg.Points(2.6), Shape: shapes[n%len(shapes)]}
}

func (l Lines) draw(to draw.Canvas) error {
	to = draw.Crop(to, margin, -margin, margin, -margin)
	rest := drawLegend(drawTitle(to, l.Says), l.legend())
	p := newPlot()
	p.X.Label.Text, p.Y.Label.Text = l.X, l.Y
	var xs, ys []float64
	for _, line := range l.Lines {
		xs, ys = append(xs, line.X...), append(ys, line.Y...)
	}
	slices.Sort(xs)
	if l.Timeline {
		linearFrom0(&p.X, slices.Max(xs), l.XLabel)
	} else {
		axisTicksAt(&p.X, slices.Compact(xs), l.XLabel)
	}
	logarithmic(&p.Y, ys, l.YLabel)
	p.Add(&plotter.Grid{Horizontal: gridStyle})
	for i, line := range l.Lines {
		points := make(plotter.XYs, len(line.X))
		for n := range points {
			points[n] = plotter.XY{X: line.X[n], Y: line.Y[n]}
		}
		drawn, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		drawn.LineStyle, marks.GlyphStyle = look(i)
		p.Add(drawn)
		if !l.Timeline {
			p.Add(marks)
		}
	}
	p.Draw(rest)
	return nil
}

func (l Lines) legend() []entry {
	entries := make([]entry, len(l.Lines))
	for i, line := range l.Lines {
		stroke, mark := look(i)
		entries[i] = entry{line.Name, func(to draw.Canvas, left, right, y vg.Length) {
			to.StrokeLine2(stroke, left, y, right, y)
			if !l.Timeline {
				to.DrawGlyph(mark, vg.Point{X: (left + right) / 2, Y: y})
			}
		}}
	}
	return entries
}

var gridStyle = draw.LineStyle{Color: grid, Width: vg.Points(0.6)}
