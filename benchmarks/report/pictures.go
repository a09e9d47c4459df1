package report

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/chart"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// PageName is the page in the folder of the results.
const PageName = "report.html"

// The pictures that the documents show, in the same folder.
const (
	OverTimeName      = "over-time.png"
	DistributionsName = "distributions.png"
	CallersName       = "callers.png"
	SizesName         = "sizes.png"
)

// ErrFileStale means that a picture or the page does not show the result.
var ErrFileStale = errors.New("it does not show benchmarks/results/latest.json; run: benchmarks/run -render")

// A picture is a chart with a file of its own.
type picture struct {
	name  string
	chart figure
}

// pictures returns those that the result has rows for.
func pictures(r *result.Result) []picture {
	var all []picture
	if drawn, ok := overTimeChart(figuresOf(r), conditions[0]); ok {
		all = append(all, picture{OverTimeName, drawn})
	}
	if drawn, ok := mainDistribution(r); ok {
		all = append(all, picture{DistributionsName, drawn})
	}
	if drawn, ok := lines(r.Rows, processesSay, byCallers, showsRate, processSeries); ok {
		all = append(all, picture{CallersName, drawn})
	}
	if drawn, ok := lines(r.Rows, sizesSay, bySize, showsP50, sizeSeries); ok {
		all = append(all, picture{SizesName, drawn})
	}
	return all
}

// picturesText shows those of some pictures that there are, and says what they lack, in a
// document that finds them in that folder.
func picturesText(r *result.Result, folder string, names ...string) string {
	var out strings.Builder
	for _, picture := range pictures(r) {
		if !slices.Contains(names, picture.name) {
			continue
		}
		fmt.Fprintf(&out, "![%s](%s/%s)\n\n", picture.chart.Title(), folder, picture.name)
		if missing := picture.chart.MissingText(); missing != "" {
			fmt.Fprintf(&out, "%s\n\n", missing)
		}
	}
	return out.String()
}

// files returns the page and the pictures of a result by their names; nil for those
// that it has no rows for.
func files(r *result.Result) (map[string][]byte, error) {
	page, err := page(r)
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{PageName: page, OverTimeName: nil, DistributionsName: nil, CallersName: nil, SizesName: nil}
	for _, picture := range pictures(r) {
		if all[picture.name], err = chart.PNG(picture.chart.Chart); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Write writes the page and the pictures of a result into a folder, and removes
// pictures of another that this one has no rows for.
func Write(folder string, r *result.Result) error {
	all, err := files(r)
	if err != nil {
		return err
	}
	for name, content := range all {
		path := filepath.Join(folder, name)
		if content != nil {
			err = errors.Join(err, os.WriteFile(path, content, 0o644))
		} else if removed := os.Remove(path); !errors.Is(removed, os.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}

// Check returns ErrFileStale when Write would change the folder.
func Check(folder string, r *result.Result) error {
	all, err := files(r)
	if err != nil {
		return err
	}
	for name, want := range all {
		path := filepath.Join(folder, name)
		content, readErr := os.ReadFile(path)
		if want == nil && errors.Is(readErr, os.ErrNotExist) {
			continue
		}
		if readErr == nil && !shows(name, content, want) || want == nil || errors.Is(readErr, os.ErrNotExist) {
			readErr = ErrFileStale
		}
		if readErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", path, readErr))
		}
	}
	return err
}

// channelStep is how much one of 255 steps of a channel is, as color.Color has it, and
// channelStepsMax how many of them are none that anybody sees: what is rounded while a
// picture is drawn is rounded otherwise by other processors.
const (
	channelStep     = 0x101
	channelStepsMax = 2
)

// alike reports whether two pixels look the same.
func alike(one, other color.Color) bool {
	near := func(a, b uint32) bool { return max(a, b)-min(a, b) <= channelStepsMax*channelStep }
	r, g, b, a := one.RGBA()
	otherR, otherG, otherB, otherA := other.RGBA()
	return near(r, otherR) && near(g, otherG) && near(b, otherB) && near(a, otherA)
}

// shows reports whether a file shows what it is to show: a picture by its pixels, for
// how they are compressed is the matter of Go's version.
func shows(name string, content, want []byte) bool {
	if filepath.Ext(name) != ".png" {
		return bytes.Equal(content, want)
	}
	is, err := png.Decode(bytes.NewReader(content))
	should, wantErr := png.Decode(bytes.NewReader(want))
	if err != nil || wantErr != nil || is.Bounds() != should.Bounds() {
		return false
	}
	for y := is.Bounds().Min.Y; y < is.Bounds().Max.Y; y++ {
		for x := is.Bounds().Min.X; x < is.Bounds().Max.X; x++ {
			if !alike(is.At(x, y), should.At(x, y)) {
				return false
			}
		}
	}
	return true
}
