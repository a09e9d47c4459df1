// Package chart draws what a report shows with gonum's plot: lines, mostly against
// logarithmic axes, and distributions one above the other. The same chart becomes an SVG
// for a page, in the page's own colours, or a PNG on a white ground that is readable on any
// page. What it draws depends on its data alone: fonts and colours are built in.
package chart

import (
	"bytes"
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A Chart is a plot with its legend below.
type Chart struct {
	Title string
	plot  *plot.Plot
	high  vg.Length // without title and legend
}

const (
	// As many units as a phone has pixels for a chart, so that text is as large there as
	// here.
	width    = 345
	pngDPI   = 144
	textSize = 11
	lineHigh = 15
	margin   = 8
	plotHigh = 250
	bandHigh = 34
	axisHigh = 45
	thin     = vg.Length(0.6)
	thick    = vg.Length(1.5)
)

// The colours on a white ground. A page gives each its own value for a dark one, by the
// name that inPage has for it.
var (
	ink      = rgb(0x1F2328)
	muted    = rgb(0x59636E)
	grid     = rgb(0xD1D9E0)
	gridLine = draw.LineStyle{Color: grid, Width: thin}
	series   = []color.Color{
		rgb(0x0969DA), rgb(0xBC4C00), rgb(0x1A7F37), rgb(0x8250DF),
		rgb(0xBF3989), rgb(0x0E7A86), rgb(0x7D4E00), rgb(0x57606A),
	}
	inPage = strings.NewReplacer("#1F2328", "var(--ink)", "#59636E", "var(--muted)", "#D1D9E0", "var(--grid)",
		"#0969DA", "var(--series-1)", "#BC4C00", "var(--series-2)", "#1A7F37", "var(--series-3)", "#8250DF", "var(--series-4)",
		"#BF3989", "var(--series-5)", "#0E7A86", "var(--series-6)", "#7D4E00", "var(--series-7)", "#57606A", "var(--series-8)",
		"font-family:Liberation Sans;font-variant:normal;font-weight:normal;font-style:normal;", "")
)

func rgb(value uint32) color.Color {
	return color.RGBA{R: uint8(value >> 16), G: uint8(value >> 8), B: uint8(value), A: 0xFF}
}

// newChart returns one without data, in our fonts and colours. A long title has several
// lines.
func newChart(title string, high vg.Length) Chart {
	p := plot.New()
	p.BackgroundColor = nil
	p.Title.Text, p.Title.Padding = title, margin
	p.Legend.Left, p.Legend.Padding = true, 3
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font.Variant, style.Font.Size, style.Color = "Sans", textSize, ink
	}
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.LineStyle.Color, axis.Tick.LineStyle.Color = muted, muted
		axis.LineStyle.Width, axis.Tick.LineStyle.Width = thin, thin
	}
	return Chart{Title: strings.ReplaceAll(title, "\n", " "), plot: p, high: high}
}

func (c Chart) legendHigh() vg.Length { return c.plot.Legend.Rectangle(draw.Canvas{}).Size().Y }

func (c Chart) height() vg.Length {
	titleLines := strings.Count(c.plot.Title.Text, "\n") + 1
	return c.high + vg.Length(titleLines)*lineHigh + c.legendHigh() + 2*margin
}

func (c Chart) draw(to draw.Canvas) {
	c.plot.Legend.YOffs = -c.legendHigh() - axisHigh
	c.plot.Draw(draw.Crop(to, margin, -margin, margin+c.legendHigh(), -margin))
}

// PNG returns the chart as an image of its own.
func (c Chart) PNG() ([]byte, error) {
	canvas := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, c.height()), vgimg.UseDPI(pngDPI))}
	c.draw(draw.New(canvas))
	var out bytes.Buffer
	_, err := canvas.WriteTo(&out)
	return out.Bytes(), err
}

// SVG returns the chart as an element for a page that sets the variables --ink, --muted,
// --grid, and --series-1 to --series-8.
func (c Chart) SVG() (string, error) {
	canvas := vgsvg.New(width, c.height())
	c.draw(draw.New(canvas))
	var out strings.Builder
	_, err := canvas.WriteTo(&out)
	_, svg, _ := strings.Cut(out.String(), "<svg")
	return inPage.Replace("<svg" + svg), err
}
