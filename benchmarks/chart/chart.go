// Package chart draws what a report shows: lines, mostly against logarithmic axes, and
// distributions one above the other. The same chart becomes an SVG for a page, in the
// page's own colours, or a PNG on a white ground that is readable on any page. What it
// draws depends on its data alone: fonts and colours are built in.
package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"strings"

	weight "golang.org/x/image/font"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// A Chart is something that can be drawn.
type Chart interface {
	// Title says what it shows, also to who cannot see it.
	Title() string
	size() (width, height vg.Length)
	draw(to draw.Canvas) error
}

const (
	// As many units as a phone has pixels for a chart, so that text is as large there as
	// here.
	width      = 345
	pngDPI     = 144
	titleSize  = 13
	textSize   = 12
	titleHigh  = titleSize * 1.3
	tickLength = 3
	margin     = 8
)

// The colours on a white ground. A page gives each its own value for a dark one: see
// SVG.
var (
	ink    = rgb(0x1F2328)
	muted  = rgb(0x59636E)
	grid   = rgb(0xD1D9E0)
	ground = rgb(0xFFFFFF)
	series = []color.Color{
		rgb(0x0969DA), rgb(0xBC4C00), rgb(0x1A7F37), rgb(0x8250DF),
		rgb(0xBF3989), rgb(0x0E7A86), rgb(0x7D4E00), rgb(0x57606A),
	}
)

func rgb(value uint32) color.Color {
	return color.RGBA{R: uint8(value >> 16), G: uint8(value >> 8), B: uint8(value), A: 0xFF}
}

func hex(c color.Color) string {
	r, g, b, _ := c.RGBA()
	return fmt.Sprintf("#%02X%02X%02X", r>>8, g>>8, b>>8)
}

// variables are the colours by the names that they have in a page.
func variables() map[string]string {
	names := map[string]string{hex(ink): "ink", hex(muted): "muted", hex(grid): "grid", hex(ground): "ground"}
	for i, c := range series {
		names[hex(c)] = fmt.Sprintf("series-%d", i+1)
	}
	return names
}

// PNG returns the chart as an image of its own.
func PNG(c Chart) ([]byte, error) {
	w, h := c.size()
	canvas := vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(pngDPI), vgimg.UseBackgroundColor(ground))
	if err := c.draw(draw.New(canvas)); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Title(), err)
	}
	var out bytes.Buffer
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(&out)
	return out.Bytes(), err
}

// style is how text looks.
func style(size float64, c color.Color) text.Style {
	return text.Style{
		Color: c, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)},
		Handler: text.Plain{Fonts: font.DefaultCache}, XAlign: draw.XLeft, YAlign: draw.YTop,
	}
}

func bold(s text.Style) text.Style {
	s.Font.Weight = weight.WeightBold
	return s
}

// drawTitle writes the title and returns what is left of the canvas.
func drawTitle(to draw.Canvas, title string) draw.Canvas {
	heading := bold(style(titleSize, ink))
	y := to.Max.Y
	for _, line := range wrapped(title, heading, to.Size().X) {
		to.FillText(heading, vg.Point{X: to.Min.X, Y: y}, line)
		y -= titleHigh
	}
	return draw.Crop(to, 0, 0, 0, y-to.Max.Y-margin/2)
}

// wrapped breaks a text into lines that are not wider than that.
func wrapped(all string, in text.Style, wide vg.Length) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(all) {
		longer := strings.TrimSpace(line + " " + word)
		if line != "" && in.Width(longer) > wide {
			lines = append(lines, line)
			longer = word
		}
		line = longer
	}
	return append(lines, line)
}

// An entry of a legend draws a sample at a place, and is named.
type entry struct {
	name string
	draw func(to draw.Canvas, left, right, y vg.Length)
}

const (
	sampleWide = 22
	entryGap   = 12
	lineHigh   = textSize * 1.45
)

// wide is how much room an entry takes in its line.
func (e entry) wide() vg.Length { return sampleWide + style(textSize, ink).Width(e.name) + entryGap }

// inLines breaks entries into lines that fit.
func inLines(entries []entry) [][]entry {
	var lines [][]entry
	var used vg.Length
	for _, e := range entries {
		if used += e.wide(); len(lines) == 0 || used > width-2*margin+entryGap {
			lines, used = append(lines, nil), e.wide()
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], e)
	}
	return lines
}

// drawLegend writes entries and returns what is left.
func drawLegend(to draw.Canvas, entries []entry) draw.Canvas {
	top := to.Max.Y
	for _, line := range inLines(entries) {
		left := to.Min.X
		for _, e := range line {
			e.draw(to, left, left+sampleWide-5, top-vg.Points(textSize*0.55))
			to.FillText(style(textSize, ink), vg.Point{X: left + sampleWide, Y: top}, e.name)
			left += e.wide()
		}
		top -= lineHigh
	}
	return draw.Crop(to, 0, 0, 0, top-to.Max.Y-margin/2)
}

// headHigh is how high title and legend are.
func headHigh(title string, entries []entry) vg.Length {
	lines := len(wrapped(title, bold(style(titleSize, ink)), width-2*margin))
	return vg.Length(lines)*titleHigh + vg.Length(len(inLines(entries)))*lineHigh + margin
}
