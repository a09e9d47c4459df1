package chart

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Line is what one way did, by what the X axis says. Values are more than 0.
type Line struct {
	Name string
	X, Y []float64
}

// An Axis says what it is, and labels its values.
type Axis struct {
	Says  string
	Label func(float64) string
	From0 bool // it is linear, has few labels, and so many values that lines have no marks
}

// Lines are lines against two axes. They are logarithmic, and X has a label at each of its
// values, unless it is from 0 on.
func Lines(title string, x, y Axis, lines []Line) (Chart, error) {
	c := newChart(title, plotHigh)
	c.plot.X.Label.Text, c.plot.Y.Label.Text = x.Says, y.Says
	c.plot.Add(&plotter.Grid{Horizontal: gridLine})
	at := map[float64]string{}
	for i, line := range lines {
		points := make(plotter.XYs, len(line.X))
		for n, value := range line.X {
			points[n], at[value] = plotter.XY{X: value, Y: line.Y[n]}, x.Label(value)
		}
		drawn, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return c, err
		}
		drawn.LineStyle, marks.GlyphStyle = look(i)
		if c.plot.Add(drawn); x.From0 {
			c.plot.Legend.Add(" "+line.Name, drawn)
			continue
		}
		c.plot.Add(marks)
		c.plot.Legend.Add(" "+line.Name, drawn, marks)
	}
	logarithmic(&c.plot.Y, y.Label)
	if x.From0 {
		c.plot.X.Min, c.plot.X.Tick.Marker = 0, labelled(plot.DefaultTicks{}, x.Label)
		return c, nil
	}
	var ticks plot.ConstantTicks
	for value, label := range at {
		ticks = append(ticks, plot.Tick{Value: value, Label: label})
	}
	slices.SortFunc(ticks, func(a, b plot.Tick) int { return cmp.Compare(a.Value, b.Value) })
	c.plot.X.Scale, c.plot.X.Tick.Marker = plot.LogScale{}, ticks
	return c, nil
}

// look is how the line of that number is told from others: by its colour, then by its
// dashes, and by its mark.
func look(n int) (draw.LineStyle, draw.GlyphStyle) {
	c := series[n%len(series)]
	return draw.LineStyle{Color: c, Width: thick, Dashes: plotutil.Dashes(n / len(series))},
		draw.GlyphStyle{Color: c, Radius: vg.Points(2.5), Shape: plotutil.Shape(n + n/len(series))}
}

// logarithmic gives an axis that has its data whole decades, which have labels.
func logarithmic(axis *plot.Axis, label func(float64) string) {
	const rounding = 1e-9 // of logarithms
	first, last := math.Floor(math.Log10(axis.Min)+rounding), math.Ceil(math.Log10(axis.Max)-rounding)
	axis.Min, axis.Max = math.Pow(10, first), math.Pow(10, max(last, first+1))
	axis.Scale, axis.Tick.Marker = plot.LogScale{}, labelled(plot.LogTicks{Prec: -1}, label)
}

// labelled writes the labels of ticks.
func labelled(ticks plot.Ticker, label func(float64) string) plot.Ticker {
	return plot.TickerFunc(func(least, most float64) []plot.Tick {
		all := ticks.Ticks(least, most)
		for i := range all {
			if !all[i].IsMinor() {
				all[i].Label = label(all[i].Value)
			}
		}
		return all
	})
}
