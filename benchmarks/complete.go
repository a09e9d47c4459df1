package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// awaitedName is the file beside latest.json that names the rows which were added since the
// last full run, as complete does. A full run removes it.
const awaitedName = "awaited-rows.txt"

// awaitedRows are the rows that need not be in the last result yet.
func (o options) awaitedRows() (rows []string, err error) {
	text, err := os.ReadFile(filepath.Join(o.results(), awaitedName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			rows = append(rows, line)
		}
	}
	return rows, err
}

// complete fails when a full run on the machine of the result would measure what the
// result says nothing of: something was added or named otherwise since. The rows that may
// wait for the next full run are awaited, and fail it once they are measured.
func (o options) complete(r *result.Result, awaited []string) error {
	full := options{tools: o.tools}
	full.cpus = r.Machine.CPUs
	planned, err := full.schedule("")
	if err != nil {
		return err
	}
	missing := missingRows(planned, r)
	for _, part := range planned.parts {
		if !leftOut(r, part.name) && !slices.ContainsFunc(r.Measures, func(m result.Measure) bool { return m.Part == part.name }) {
			missing = append(missing, part.name)
		}
	}
	for _, row := range awaited {
		at := slices.Index(missing, row)
		if at < 0 {
			return fmt.Errorf("%s: %q is measured, or is no row: delete its line", awaitedName, row)
		}
		missing = slices.Delete(missing, at, at+1)
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s says nothing of %d rows and parts that are measured now; run: make bench\n  %s", latestName, len(missing), strings.Join(missing, "\n  "))
}

// missingRows are the planned rows that a result has neither with figures nor with a
// reason to have none.
func missingRows(planned schedule, r *result.Result) []string {
	type key struct {
		group, name string
		size        int
	}
	there := map[key]bool{}
	for _, row := range r.Rows {
		there[key{row.Group, row.Name, row.Size}] = true
	}
	var missing []string
	for _, group := range planned.groups {
		for _, row := range group.rows {
			if !there[key{group.name, row.name, row.size}] && !leftOut(r, group.name) && !leftOut(r, row.name) {
				missing = append(missing, fmt.Sprintf("%s of %d bytes, in %s", row.name, row.size, group.name))
			}
		}
	}
	return missing
}

// leftOut reports whether a result says why it lacks something.
func leftOut(r *result.Result, name string) bool {
	return slices.ContainsFunc(r.LeftOut, func(left result.LeftOut) bool { return left.Group == name })
}
