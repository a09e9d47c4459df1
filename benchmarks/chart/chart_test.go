package chart_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/chart"
)

var (
	callers = chart.Axis{Says: "callers", Label: chart.Count}
	rate    = chart.Axis{Says: "calls/s", Label: chart.Rate}
)

func lines(y ...float64) (chart.Chart, error) {
	return chart.Lines("Calls per second\n<& more>", callers, rate, []chart.Line{
		{Name: "shared memory", X: []float64{1, 4, 64}, Y: y}, {Name: "socket", X: []float64{1, 4, 64}, Y: []float64{4e4, 1e5, 1.3e5}}})
}

// timeline is of many points.
func timeline() (chart.Chart, error) {
	all := make([]chart.Line, 2)
	for n := 1; n <= 40; n++ {
		for i := range all {
			all[i].X, all[i].Y = append(all[i].X, float64(n)/4), append(all[i].Y, float64(1000*(i+1)+n))
		}
	}
	return chart.Lines("Calls over time", chart.Axis{Says: "time", Label: chart.Seconds, From0: true}, rate, all)
}

func bands() (chart.Chart, error) {
	return chart.Bands("Distributions", []chart.Band{
		{Name: "fast", Lower: []int64{100, 126, 158}, Counts: []int64{5, 90, 3}, Min: 110, P50: 130, P99: 160, P999: 190, Max: 199},
		{Name: "no time at all", Lower: []int64{0}, Counts: []int64{1}},
	})
}

// drawn draws a chart in both forms.
func drawn(t *testing.T, draw func() (chart.Chart, error)) (picture []byte, svg string) {
	t.Helper()
	c, err := draw()
	if err != nil {
		t.Fatal(err)
	}
	picture, pictureErr := c.PNG()
	svg, svgErr := c.SVG()
	if err := errors.Join(pictureErr, svgErr); err != nil {
		t.Fatal(err)
	}
	return picture, svg
}

func svgOf(t *testing.T, y ...float64) string {
	_, svg := drawn(t, func() (chart.Chart, error) { return lines(y...) })
	return svg
}

func TestChartsAreTheSameEachTime(t *testing.T) {
	begins := []string{"1", "0 s", "1 ns"} // time goes on from 0
	for i, draw := range []func() (chart.Chart, error){func() (chart.Chart, error) { return lines(2e6, 7e5, 2e5) }, timeline, bands} {
		first, svg := drawn(t, draw)
		if again, svgAgain := drawn(t, draw); !bytes.Equal(first, again) || svg != svgAgain {
			t.Errorf("chart %d differs when it is drawn again", i)
		}
		picture, err := png.Decode(bytes.NewReader(first))
		if err != nil {
			t.Fatal(err)
		}
		if r, g, b, a := picture.At(0, 0).RGBA(); r&g&b&a != 0xFFFF {
			t.Errorf("the ground of chart %d is not white", i)
		}
		decoder := xml.NewDecoder(strings.NewReader(svg))
		for err == nil {
			_, err = decoder.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("chart %d: %v", i, err)
		}
		if !strings.Contains(svg, ">"+begins[i]+"<") {
			t.Errorf("the axis of chart %d does not begin with %s: %s", i, begins[i], svg)
		}
		if !strings.Contains(svg, "var(--ink)") || !strings.Contains(svg, "var(--series-2)") || strings.Contains(svg, "#") {
			t.Errorf("colours of chart %d are not the page's: %s", i, svg)
		}
	}
}

func TestLabels(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{chart.Time(0), "0 ns"}, {chart.Time(1500), "1.5 us"}, {chart.Time(2e6), "2 ms"}, {chart.Time(1e9), "1 s"}, {chart.Time(1e13), "1e+04 s"},
		{chart.Rate(5), "5/s"}, {chart.Rate(2e4), "20 k/s"}, {chart.Rate(3e6), "3 M/s"}, {chart.Seconds(2.5), "2.5 s"},
		{chart.Bytes(64), "64 B"}, {chart.Bytes(4096), "4 KiB"}, {chart.Bytes(4190208), "4 MiB"}, {chart.Count(64), "64"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// However near to each other values are, an axis has two labels.
func TestAnAxisHasLabels(t *testing.T) {
	for want, y := range map[string][]float64{">10 k/s<": {4.1e4, 4.2e4, 4.3e4}, ">1 M/s<": {1e6, 1e6, 1e6}} {
		if svg := svgOf(t, y...); !strings.Contains(svg, want) || !strings.Contains(svg, ">1 M/s<") && !strings.Contains(svg, ">100 k/s<") {
			t.Errorf("the axis of %v has no label %q: %s", y, want, svg)
		}
	}
	if svg := svgOf(t, 1e5, 1e5, 1e5); !strings.Contains(svg, ">64<") {
		t.Errorf("a value of X has no label: %s", svg)
	}
}

// The page has 22 lines in a chart of peers.
func TestLinesAreToldApart(t *testing.T) {
	var all []chart.Line
	for n := range 30 {
		all = append(all, chart.Line{Name: fmt.Sprint("way ", n), X: []float64{1, 2}, Y: []float64{1, 2}})
	}
	_, svg := drawn(t, func() (chart.Chart, error) { return chart.Lines("Peers", callers, rate, all) })
	looks := map[string]bool{}
	for line := range strings.Lines(svg) {
		if _, style, found := strings.Cut(line, `style="fill:none;stroke:var(--series-`); found {
			looks[style] = true
		}
	}
	if len(looks) < len(all) {
		t.Errorf("%d lines have %d looks", len(all), len(looks))
	}
}
