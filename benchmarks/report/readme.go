package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// The marks between which the README's figures stand. Nothing else of it is
// touched.
const (
	beginMark = "<!-- figures of benchmarks/results/latest.json: begin -->\n"
	endMark   = "<!-- figures of benchmarks/results/latest.json: end -->\n"
)

// ErrStale means that the README's figures are not those of the result.
var ErrStale = errors.New("its figures are not those of benchmarks/results/latest.json; run: benchmarks/run -update-readme")

// UpdateReadme replaces the figures in the file.
func UpdateReadme(path string, r *result.Result) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	updated, err := withFigures(text, r)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if bytes.Equal(text, updated) {
		return nil
	}
	return os.WriteFile(path, updated, 0o644)
}

// CheckReadme returns ErrStale when UpdateReadme would change the file.
func CheckReadme(path string, r *result.Result) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	updated, err := withFigures(text, r)
	if err == nil && !bytes.Equal(text, updated) {
		err = ErrStale
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func withFigures(text []byte, r *result.Result) ([]byte, error) {
	begin := bytes.Index(text, []byte(beginMark))
	end := bytes.Index(text, []byte(endMark))
	if begin < 0 || end < begin {
		return nil, fmt.Errorf("has no place for figures; it is between the lines %q and %q", beginMark, endMark)
	}
	var out bytes.Buffer
	out.Write(text[:begin+len(beginMark)])
	out.WriteString("\n" + figures(r) + "\n")
	out.Write(text[end:])
	return out.Bytes(), nil
}

// figures writes the tables as Markdown.
func figures(r *result.Result) string {
	var out strings.Builder
	fmt.Fprintf(&out, "Measured on %s: %s, %d CPUs, kernel %s; median of %d rounds of %d ms, or as many as their group needs, in turns.\n\n",
		r.Date.Format("2006-01-02"), r.Machine.CPU, r.Machine.CPUs, r.Machine.Kernel, r.Method.Rounds, r.Method.RoundMS)
	if hasPlot(r) {
		out.WriteString("![Throughput and p99 against the number of processes that call at once](benchmarks/results/" + PlotName + ")\n\n")
	}
	if hasPublished(r) {
		out.WriteString(publishedTable(r) + "\n")
	}
	out.WriteString(handoffsTable(r))
	out.WriteString(residentsTable(r))
	fmt.Fprintf(&out, "%s\n<details><summary>Every row, every goal</summary>\n\n", summary(r))
	out.WriteString("| row | bytes | callers | p50 | p99 | calls/s | CPU s per million calls, caller + server |\n|---|---:|---:|---:|---:|---:|---:|\n")
	for _, row := range r.Rows {
		fmt.Fprintf(&out, "| %s | %s | %d | %s | %s | %s | %.2f + %.2f |\n", row.Name, thousands(float64(row.Size)), row.Callers,
			microseconds(row.P50NS), microseconds(row.P99NS), thousands(row.PerS), row.CallerCPU, row.ServerCPU)
	}
	out.WriteString("\n| goal | bytes | bound | measured | |\n|---|---:|---:|---:|---|\n")
	for _, c := range r.Comparisons {
		if c.Goal != nil {
			fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", comparison(c), thousands(float64(c.Of.Size)),
				bound(c.Goal, func(v float64) string { return value(c, v) }), value(c, c.Value), verdict(c.Goal))
		}
	}
	for _, measure := range r.Measures {
		if measure.Goal != nil {
			fmt.Fprintf(&out, "| %s | | %s | %s | %s |\n", strings.ReplaceAll(measure.Name, "_", " "), boundOf(measure), quantity(measure), verdict(measure.Goal))
		}
	}
	for _, left := range r.LeftOut {
		fmt.Fprintf(&out, "\nNot measured: %s, %s.\n", left.Group, left.Why)
	}
	out.WriteString("\n</details>\n")
	return out.String()
}

// firstRows are what a stranger wants to know first, by their names.
var firstRows = []struct{ name, says string }{
	{"nearcall-c-embed", "Nearcall from C, Go in the same process"},
	{"nearcall-perl-embed-typed", "from Perl, typed"},
	{"nearcall-python-embed-typed", "from Python, typed"},
	{"nearcall-perl-embed-child-typed", "from a forked child of it, in Perl, typed"},
	{"floor-c-cgo", "an empty Go function, called from C"},
	{"nearcall-c-shm", "Nearcall from C, shared memory"},
	{"nearcall-perl-shm-typed", "from Perl, typed"},
	{"nearcall-python-shm-typed", "from Python, typed"},
	{"nearcall-go-shm", "from Go"},
	{"floor-c-spin", "two C processes that bounce 64 bytes through memory"},
	{"nearcall-c-socket", "Nearcall from C, socket"},
	{"nearcall-perl-socket-typed", "from Perl, typed"},
	{"nearcall-python-socket-typed", "from Python, typed"},
	{"nearcall-go-socket", "from Go"},
	{"floor-go-socket", "a bare echo server in Go, called from C"},
	{"nearcall-c-shm-pipelined", "64 calls in flight from one C process; p50 of all 64"},
	{"nearcall-go-64-shared", "64 goroutines on one connection"},
	{"floor-go-64-connections", "the bare server, 64 connections"},
	{"simple-json", "the simple protocol"},
}

// summary is the table of the first rows.
func summary(r *result.Result) string {
	var out strings.Builder
	out.WriteString("| one call of 64 bytes or less | p50 | calls/s | CPU s per million calls, caller + server |\n|---|---:|---:|---:|\n")
	for _, first := range firstRows {
		for _, row := range r.Rows {
			if row.Name == first.name && row.Size <= 64 {
				fmt.Fprintf(&out, "| %s | %s | %s | %.2f + %.2f |\n", first.says, microseconds(row.P50NS), thousands(row.PerS), row.CallerCPU, row.ServerCPU)
			}
		}
	}
	return out.String()
}

func verdict(g *result.Goal) string {
	if g.Met {
		return "met"
	}
	return "**not met**"
}
