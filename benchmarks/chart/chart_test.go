package chart_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/chart"
)

func lines() chart.Lines {
	return chart.Lines{
		Says: "Calls per second <& more>", X: "callers", Y: "calls/s", XLabel: chart.Count, YLabel: chart.Rate,
		Lines: []chart.Line{
			{Name: "shared memory", X: []float64{1, 4, 64}, Y: []float64{2e6, 7e5, 2e5}},
			{Name: "socket", X: []float64{1, 4, 64}, Y: []float64{4e4, 1e5, 1.3e5}},
		},
	}
}

// timeline is of many points.
func timeline() chart.Lines {
	c := chart.Lines{Says: "Calls over time", X: "time", Y: "calls/s", XLabel: chart.Seconds, YLabel: chart.Rate, Timeline: true, Lines: make([]chart.Line, 2)}
	for n := 1; n <= 40; n++ {
		for i := range c.Lines {
			c.Lines[i].X, c.Lines[i].Y = append(c.Lines[i].X, float64(n)/4), append(c.Lines[i].Y, float64(1000*(i+1)+n))
		}
	}
	return c
}

func bands() chart.Bands {
	return chart.Bands{Says: "Distributions", Bands: []chart.Band{
		{Name: "fast", Lower: []int64{100, 126, 158}, Counts: []int64{5, 90, 3}, Min: 110, P50: 130, P99: 160, P999: 190, Max: 199},
		{Name: "no time at all", Lower: []int64{0}, Counts: []int64{1}},
	}}
}

func TestChartsAreTheSameEachTime(t *testing.T) {
	for _, c := range []chart.Chart{lines(), timeline(), bands()} {
		first, err := chart.PNG(c)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := chart.PNG(c); err != nil || !bytes.Equal(first, again) {
			t.Errorf("%s: the image differs when it is drawn again; %v", c.Title(), err)
		}
		picture, err := png.Decode(bytes.NewReader(first))
		if err != nil {
			t.Fatal(err)
		}
		if r, g, b, a := picture.At(0, 0).RGBA(); r&g&b&a != 0xFFFF {
			t.Errorf("%s: its ground is not white", c.Title())
		}
		svg, err := chart.SVG(c)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := chart.SVG(c); err != nil || svg != again {
			t.Errorf("%s: the SVG differs when it is drawn again; %v", c.Title(), err)
		}
	}
}

func TestChartsShowTheirData(t *testing.T) {
	other := lines()
	other.Lines[0].Y[1] *= 1.1
	before, errBefore := chart.PNG(lines())
	after, errAfter := chart.PNG(other)
	if err := errors.Join(errBefore, errAfter); err != nil || bytes.Equal(before, after) {
		t.Errorf("another figure does not show; %v", err)
	}
}

func TestSVGIsWellFormedAndInThePagesColours(t *testing.T) {
	for _, c := range []chart.Chart{lines(), timeline(), bands()} {
		svg, err := chart.SVG(c)
		if err != nil {
			t.Fatal(err)
		}
		decoder := xml.NewDecoder(strings.NewReader(svg))
		for err == nil {
			_, err = decoder.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", c.Title(), err)
		}
		for _, want := range []string{`<svg viewBox="`, `role="img" font-size="12"><title>` + strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(c.Title()), "var(--ink)", "var(--series-2)"} {
			if !strings.Contains(svg, want) {
				t.Errorf("%s: %q is not in it", c.Title(), want)
			}
		}
		if bare := strings.Count(svg, "#"); bare != 0 {
			t.Errorf("%s: %d colours are not the page's", c.Title(), bare)
		}
	}
}

func TestLabels(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{chart.Time(0), "0 ns"}, {chart.Time(1500), "1.5 us"}, {chart.Time(2e6), "2 ms"}, {chart.Time(1e9), "1 s"},
		{chart.Rate(5), "5/s"}, {chart.Rate(2e4), "20 k/s"}, {chart.Rate(3e6), "3 M/s"},
		{chart.Bytes(64), "64 B"}, {chart.Bytes(4096), "4 KiB"}, {chart.Bytes(4190208), "4 MiB"}, {chart.Count(64), "64"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestLabelsDoNotTouch(t *testing.T) {
	c := lines()
	c.XLabel = chart.Bytes
	c.Lines[0].X, c.Lines[1].X = []float64{64, 1 << 20, 4 << 20}, []float64{64, 1 << 20, 4 << 20}
	svg, err := chart.SVG(c)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(svg, ">1 MiB<") || !strings.Contains(svg, ">4 MiB<") || !strings.Contains(svg, ">64 B<") {
		t.Errorf("labels are not those with room between them: %s", svg)
	}
}

func TestAnAxisHasLabels(t *testing.T) {
	c := lines()
	c.Lines[0].Y, c.Lines[1].Y = []float64{3_100, 3_200, 3_300}, []float64{5_500, 5_600, 5_700}
	svg, err := chart.SVG(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">3 k/s<", ">4 k/s<", ">6 k/s<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the axis has no label %q: %s", want, svg)
		}
	}
}

// Time goes on evenly, from 0.
func TestTimelinesBeginWith0(t *testing.T) {
	for last, labels := range map[float64]string{10: "0 s 2 s 4 s 6 s 8 s 10 s", 3: "0 s 0.5 s 1 s 1.5 s 2 s 2.5 s 3 s", 15: "0 s 5 s 10 s 15 s"} {
		c := timeline()
		for i := range c.Lines {
			c.Lines[i].X, c.Lines[i].Y = append(c.Lines[i].X[:1], last), c.Lines[i].Y[:2]
		}
		svg, err := chart.SVG(c)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, label := range regexp.MustCompile(`>([0-9.]+ s)<`).FindAllStringSubmatch(svg, -1) {
			got = append(got, label[1])
		}
		if strings.Join(got, " ") != labels {
			t.Errorf("up to %g s the labels are %q", last, got)
		}
	}
}

// A page has hundreds of pictures.
func TestSVGIsShort(t *testing.T) {
	for _, c := range []chart.Chart{lines(), bands()} {
		svg, err := chart.SVG(c)
		if err != nil {
			t.Fatal(err)
		}
		const most = 3_500
		if len(svg) > most {
			t.Errorf("%s: %d bytes, at most %d", c.Title(), len(svg), most)
		}
	}
}
