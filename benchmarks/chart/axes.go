package chart

import (
	"fmt"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// newPlot returns an empty plot in our fonts and colours.
func newPlot() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle = style(textSize, muted)
		axis.Label.TextStyle.XAlign, axis.Label.TextStyle.YAlign = draw.XCenter, draw.YBottom
		axis.LineStyle.Color, axis.Tick.LineStyle.Color = muted, muted
		axis.Tick.Label.Font, axis.Tick.Label.Color, axis.Tick.Label.Handler = style(textSize, ink).Font, ink, style(textSize, ink).Handler
		axis.Tick.Length = vg.Points(tickLength)
		axis.Padding = vg.Points(2)
	}
	return p
}

// logarithmic gives an axis a logarithmic scale that holds all values, which are
// more than 0, with labels at round ones.
func logarithmic(axis *plot.Axis, values []float64, label func(float64) string) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, value := range values {
		low, high = min(low, value), max(high, value)
	}
	var ticks []plot.Tick
	first, last := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	few := math.Log10(high/low) < 1.5
	for power := first; power <= last; power++ {
		for digit := 1.0; digit < 10; digit++ {
			tick := plot.Tick{Value: digit * math.Pow(10, power)}
			if digit == 1 || few && (digit == 2 || digit == 5) {
				tick.Label = label(tick.Value)
			}
			ticks = append(ticks, tick)
		}
	}
	axis.Scale = plot.LogScale{}
	axis.Min, axis.Max = ends(ticks, low, high)
	axis.Tick.Marker = plot.ConstantTicks(withLabels(ticks, axis.Min, axis.Max, label))
}

// withLabels gives every tick a label where fewer than two of an axis have one.
func withLabels(ticks []plot.Tick, first, last float64, label func(float64) string) []plot.Tick {
	labels := 0
	for _, tick := range ticks {
		if tick.Label != "" && tick.Value >= first && tick.Value <= last {
			labels++
		}
	}
	if labels < 2 {
		for i := range ticks {
			ticks[i].Label = label(ticks[i].Value)
		}
	}
	return ticks
}

// ends returns the ticks next to the lowest and the highest value.
func ends(ticks []plot.Tick, low, high float64) (first, last float64) {
	first, last = ticks[0].Value, ticks[len(ticks)-1].Value
	for _, tick := range ticks {
		if tick.Value <= low {
			first = tick.Value
		}
		if tick.Value >= high {
			last = tick.Value
			break
		}
	}
	if first == last {
		last *= 2
	}
	return first, last
}

// axisTicksAt gives a logarithmic axis ticks at these values only, which ascend, with
// labels where there is room.
func axisTicksAt(axis *plot.Axis, values []float64, label func(float64) string) {
	ticks := make([]plot.Tick, len(values))
	low, high := math.Inf(1), math.Inf(-1)
	for i, value := range values {
		ticks[i] = plot.Tick{Value: value, Label: label(value)}
		low, high = min(low, value), max(high, value)
	}
	withoutLabelsThatTouch(ticks)
	const room = 0.06 // of the axis, on both sides
	spare := math.Pow(max(high/low, 2), room)
	axis.Scale, axis.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(ticks)
	axis.Min, axis.Max = low/spare, high*spare
}

// linearFrom0 gives an axis a linear scale from 0 on, with a few labels at round values.
func linearFrom0(axis *plot.Axis, high float64, label func(float64) string) {
	const labelsMax = 6 // after that of 0
	step := math.Pow(10, math.Floor(math.Log10(high))-1)
	for _, times := range []float64{2, 2.5, 2, 2} { // 1, 2, 5, 10 and 20
		if high/step > labelsMax {
			step *= times
		}
	}
	var ticks []plot.Tick
	for n := 0.0; n*step <= high; n++ {
		ticks = append(ticks, plot.Tick{Value: n * step, Label: label(n * step)})
	}
	axis.Min, axis.Max, axis.Tick.Marker = 0, high, plot.ConstantTicks(ticks)
}

// withoutLabelsThatTouch takes away labels of ticks that the next label would touch. The
// last stays.
func withoutLabelsThatTouch(ticks []plot.Tick) {
	if len(ticks) == 0 {
		return
	}
	const wide = 0.14 // of the axis, for a label
	last := len(ticks) - 1
	axis := math.Log(max(ticks[last].Value/ticks[0].Value, 2))
	next := ticks[last].Value
	for i := last - 1; i >= 0; i-- {
		if math.Log(next/ticks[i].Value) < wide*axis {
			ticks[i].Label = ""
			continue
		}
		next = ticks[i].Value
	}
}

func short(value float64) string { return strconv.FormatFloat(value, 'g', 4, 64) }

// Time writes nanoseconds in the unit that suits them.
func Time(ns float64) string {
	switch {
	case ns >= 1e9:
		return short(ns/1e9) + " s"
	case ns >= 1e6:
		return short(ns/1e6) + " ms"
	case ns >= 1e3:
		return short(ns/1e3) + " us"
	}
	return short(ns) + " ns"
}

// Seconds writes a time that is in them.
func Seconds(s float64) string { return short(s) + " s" }

// Rate writes how many there are per second.
func Rate(perSecond float64) string {
	switch {
	case perSecond >= 1e6:
		return short(perSecond/1e6) + " M/s"
	case perSecond >= 1e3:
		return short(perSecond/1e3) + " k/s"
	}
	return short(perSecond) + "/s"
}

// Bytes writes a size in binary units; a size a little below a unit is rounded to it.
func Bytes(size float64) string {
	switch {
	case size >= 1<<20:
		return short(math.Round(size/(1<<20))) + " MiB"
	case size >= 1<<10:
		return short(math.Round(size/(1<<10))) + " KiB"
	}
	return short(size) + " B"
}

// Count writes a number.
func Count(n float64) string { return fmt.Sprintf("%.0f", n) }
