package report

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"slices"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// ErrStale means that a document, a picture or the page does not show the result.
var ErrStale = errors.New("it does not show benchmarks/results/latest.json; run: benchmarks/run -render")

// A file is made of a result.
type file struct {
	path    string
	content []byte // nil: the result has nothing for it, and it is not to be there
}

// write writes the file, or removes that of another result.
func (f file) write() error {
	if f.content != nil {
		return os.WriteFile(f.path, f.content, 0o644)
	}
	if err := os.Remove(f.path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// check returns ErrStale if write would change anything that is seen.
func (f file) check() error {
	held, err := os.ReadFile(f.path)
	switch {
	case errors.Is(err, os.ErrNotExist) && f.content == nil:
		return nil
	case err == nil && f.content != nil && f.shownBy(held):
		return nil
	case err == nil || errors.Is(err, os.ErrNotExist):
		err = ErrStale
	}
	return fmt.Errorf("%s: %w", f.path, err)
}

// PageName is the page in the folder of the results.
const PageName = "report.html"

// pictureNames are the sections whose first chart is a file beside the page, which
// documents show.
var pictureNames = []string{"over-time", "distributions", "callers", "sizes"}

// A picture is a chart with a file of its own.
type picture struct {
	Figure
	Path string
}

// Pictures are those of some sections that there are, in a document that finds them in that
// folder.
func (r run) Pictures(folder string, sections ...string) (all []picture, err error) {
	for _, section := range sections {
		charts, err := r.Charts(section)
		if err != nil {
			return nil, err
		}
		if len(charts) > 0 {
			all = append(all, picture{charts[0], folder + "/" + section + ".png"})
		}
	}
	return all, nil
}

// files are the page and the pictures of a result.
func files(folder string, r *result.Result) ([]file, error) {
	content, err := page(r)
	all := []file{{filepath.Join(folder, PageName), content}}
	for _, name := range pictureNames {
		pictures, pictureErr := runOf(r).Pictures(folder, name)
		f := file{path: filepath.Join(folder, name+".png")}
		if err = errors.Join(err, pictureErr); len(pictures) > 0 && err == nil {
			f.content, err = pictures[0].PNG()
		}
		all = append(all, f)
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Write writes the page and the pictures of a result into a folder, and removes
// pictures of another that this one has no rows for.
func Write(folder string, r *result.Result) error { return each(file.write, files, folder, r) }

// Check returns ErrStale when Write would change the folder.
func Check(folder string, r *result.Result) error { return each(file.check, files, folder, r) }

// each does something with all files that can be made of a result.
func each(do func(file) error, of func(string, *result.Result) ([]file, error), folder string, r *result.Result) error {
	all, err := of(folder, r)
	for _, f := range all {
		err = errors.Join(err, do(f))
	}
	return err
}

// shownBy reports whether a file shows what it is to show: a picture by its pixels, for
// how they are compressed is the matter of Go's version.
func (f file) shownBy(held []byte) bool {
	if filepath.Ext(f.path) != ".png" {
		return bytes.Equal(held, f.content)
	}
	is, err := pixels(held)
	should, wantErr := pixels(f.content)
	return err == nil && wantErr == nil && is.Rect == should.Rect && slices.EqualFunc(is.Pix, should.Pix, alike)
}

func pixels(picture []byte) (*image.NRGBA, error) {
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, err
	}
	all := image.NewNRGBA(decoded.Bounds())
	draw.Draw(all, all.Rect, decoded, all.Rect.Min, draw.Src)
	return all, nil
}

// alike reports whether a colour of two pixels looks the same: what is rounded while a
// picture is drawn is rounded otherwise by other processors.
func alike(one, other uint8) bool { return max(one, other)-min(one, other) <= 2 }
