package chart

import (
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
}

// Lines are lines against two logarithmic axes. X has a label at each of its values.
func Lines(title string, x, y Axis, lines []Line) (Chart, error) {
	c, err := linesChart(title, x, y, lines, true)
	if err != nil {
		return c, err
	}
	var values []float64
	for _, line := range lines {
		values = append(values, line.X...)
	}
	slices.Sort(values)
	var ticks plot.ConstantTicks
	for _, value := range slices.Compact(values) {
		ticks = append(ticks, plot.Tick{Value: value, Label: x.Label(value)})
	}
	c.plot.X.Scale, c.plot.X.Tick.Marker = plot.LogScale{}, ticks
	return c, nil
}

// Timeline is lines over time, which is from 0 on. Points have no marks, as there are many.
func Timeline(title string, x, y Axis, lines []Line) (Chart, error) {
	c, err := linesChart(title, x, y, lines, false)
	if err == nil {
		c.plot.X.Min, c.plot.X.Tick.Marker = 0, labelled(plot.DefaultTicks{}, x.Label)
	}
	return c, err
}

func linesChart(title string, x, y Axis, lines []Line, marked bool) (Chart, error) {
	c := newChart(title, plotHigh)
	c.plot.X.Label.Text, c.plot.Y.Label.Text = x.Says, y.Says
	c.plot.Add(&plotter.Grid{Horizontal: gridLine})
	for i, line := range lines {
		points := make(plotter.XYs, len(line.X))
		for n := range points {
			points[n] = plotter.XY{X: line.X[n], Y: line.Y[n]}
		}
		drawn, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return c, err
		}
		drawn.LineStyle, marks.GlyphStyle = look(i)
		c.plot.Add(drawn)
		if marked {
			c.plot.Add(marks)
			c.add(line.Name, drawn, marks)
		} else {
			c.add(line.Name, drawn)
		}
	}
	logarithmic(&c.plot.Y, y.Label)
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
