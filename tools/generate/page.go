package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// page is one output: a whole file, or the region of a file between two marker
// lines, whose other lines are written by people.
type page struct {
	path   string
	text   string
	region *region
}

type region struct {
	begin, end string
}

var (
	cRegion = region{
		begin: "/* generated from spec/errors.json: begin */",
		end:   "/* generated from spec/errors.json: end */",
	}
	markdownRegion = region{
		begin: "<!-- generated: begin -->",
		end:   "<!-- generated: end -->",
	}
)

// full returns what the whole file should hold, given what it holds now.
func (p page) full(current string) (string, error) {
	if p.region == nil {
		return p.text, nil
	}
	text, err := p.region.replace(current, p.text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", p.path, err)
	}
	return text, nil
}

func (r region) replace(current, text string) (string, error) {
	begin, end := r.begin+"\n", r.end+"\n"
	if strings.Count(current, begin) != 1 || strings.Count(current, end) != 1 {
		return "", fmt.Errorf("it must hold the lines %q and %q once each", r.begin, r.end)
	}
	head, rest, _ := strings.Cut(current, begin)
	_, tail, found := strings.Cut(rest, end)
	if !found {
		return "", fmt.Errorf("line %q comes before %q", r.end, r.begin)
	}
	return head + begin + text + end + tail, nil
}

// readCurrent reads what is there; a missing file counts as an empty one.
func readCurrent(root string, p page) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, p.path))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

// writeAll writes only files that change, so that builds that go by time stamps
// do not start over.
func writeAll(root string, pages []page, out io.Writer) error {
	for _, p := range pages {
		current, err := readCurrent(root, p)
		if err != nil {
			return err
		}
		text, err := p.full(current)
		if err != nil {
			return err
		}
		if text == current {
			continue
		}
		if err := write(filepath.Join(root, p.path), text); err != nil {
			return err
		}
		fmt.Fprintln(out, "wrote", p.path)
	}
	return nil
}

func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// compareAll reports every stale file, not only the first.
func compareAll(root string, pages []page, out io.Writer) error {
	dir, err := os.MkdirTemp("", "nearcall-generate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var stale []string
	for _, p := range pages {
		fresh, err := compare(root, dir, p, out)
		if err != nil {
			return err
		}
		if !fresh {
			stale = append(stale, p.path)
		}
	}
	if len(stale) > 0 {
		return fmt.Errorf("stale: %s; run `make generate` and commit the result", strings.Join(stale, ", "))
	}
	return nil
}

func compare(root, dir string, p page, out io.Writer) (fresh bool, err error) {
	current, err := readCurrent(root, p)
	if err != nil {
		return false, err
	}
	text, err := p.full(current)
	if err != nil {
		return false, err
	}
	if text == current {
		return true, nil
	}
	return false, printDifference(dir, p.path, current, text, out)
}

func printDifference(dir, path, current, text string, out io.Writer) error {
	have, want := filepath.Join(dir, "checked-in", path), filepath.Join(dir, "generated", path)
	if err := errors.Join(write(have, current), write(want, text)); err != nil {
		return err
	}
	diff := exec.Command("diff", "-u", "--label", path+" (checked in)", "--label", path+" (generated)", have, want)
	diff.Stdout, diff.Stderr = out, out
	var exit *exec.ExitError
	if err := diff.Run(); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		return fmt.Errorf("diff: %w", err)
	}
	return nil
}
