package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nearcall/nearcall/benchmarks/chart"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// The marks between which the figures of a file stand, the README's and others'.
// Nothing else of it is touched.
const (
	beginMark = "<!-- figures of benchmarks/results/latest.json: begin -->\n"
	endMark   = "<!-- figures of benchmarks/results/latest.json: end -->\n"
	// resultsFolder is where the README finds pictures and page.
	resultsFolder = "benchmarks/results"
)

// ErrStale means that a file's figures are not those of the result.
var ErrStale = errors.New("its figures are not those of benchmarks/results/latest.json; run: benchmarks/run -render")

// UpdateReadme replaces the figures in the file.
func UpdateReadme(path string, r *result.Result) error { return updateFigures(path, readmeFigures(r)) }

// CheckReadme returns ErrStale when UpdateReadme would change the file.
func CheckReadme(path string, r *result.Result) error { return checkFigures(path, readmeFigures(r)) }

// updateFigures replaces what stands between a file's marks.
func updateFigures(path, figures string) error {
	text, updated, err := withFigures(path, figures)
	if err != nil || bytes.Equal(text, updated) {
		return err
	}
	return os.WriteFile(path, updated, 0o644)
}

// checkFigures returns ErrStale when updateFigures would change the file.
func checkFigures(path, figures string) error {
	text, updated, err := withFigures(path, figures)
	if err == nil && !bytes.Equal(text, updated) {
		err = fmt.Errorf("%s: %w", path, ErrStale)
	}
	return err
}

// withFigures returns a file's text as it is and with figures between its marks.
func withFigures(path, figures string) (text, updated []byte, err error) {
	text, err = os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	begin := bytes.Index(text, []byte(beginMark))
	end := bytes.Index(text, []byte(endMark))
	if begin < 0 || end < begin {
		return nil, nil, fmt.Errorf("%s: has no place for figures; it is between the lines %q and %q", path, beginMark, endMark)
	}
	var out bytes.Buffer
	out.Write(text[:begin+len(beginMark)])
	out.WriteString("\n" + figures + "\n")
	out.Write(text[end:])
	return text, out.Bytes(), nil
}

// readmeFigures writes the tables as Markdown.
func readmeFigures(r *result.Result) string {
	var out strings.Builder
	fmt.Fprintf(&out, "Measured on %s by `make bench` of revision %s: %s, %d CPUs, kernel %s; rows of a group in turns.\n"+
		"All of it, with distributions and what others have published: [report.html](%s/%s), a page to open from a clone.\n\n",
		r.Date.Format(time.DateOnly), r.Versions.Nearcall, r.Machine.CPU, r.Machine.CPUs, r.Machine.Kernel, resultsFolder, PageName)
	for _, picture := range pictures(r) {
		fmt.Fprintf(&out, "![%s](%s/%s)\n\n", picture.chart.Title(), resultsFolder, picture.name)
		if missing := picture.chart.MissingText(); missing != "" {
			fmt.Fprintf(&out, "%s\n\n", missing)
		}
	}
	ways := waysTable(ofSmall(r))
	fmt.Fprintf(&out, "%s\n%s\n\n", ways.markdown(), strings.Join(ways.Notes, " "))
	out.WriteString(readmeOverTime(figuresOf(r)))
	out.WriteString(readmePeers(r))
	out.WriteString(readmePublished(figuresOf(r)))
	out.WriteString(readmeNotFastest(r))
	out.WriteString(readmeGoals(r))
	return out.String()
}

// readmePeers is one size with one caller; the page has all of them.
func readmePeers(r *result.Result) string {
	group := slices.IndexFunc(groupsOf(r), func(g rowGroup) bool { return g.Name == fmt.Sprintf("%s%d-%d", peersPrefix, smallMax, 1) })
	if group < 0 {
		return ""
	}
	rows, ok := peerRows(groupsOf(r)[group].Rows)
	if !ok {
		return ""
	}
	t := peersTable(figuresOf(r), r.Peers, rows, smallMax)
	t.Head[0], t.Head[1] = "way", "p50"
	for i, way := range waysIn(rows) {
		if language := peerOf(r.Peers, way).Language; language != "" && language != "Go" {
			t.Lines[i].Name += " (" + language + ")"
		}
	}
	return fmt.Sprintf("Other ways to call another process, each set up as the page shows, from one caller with %s there and back, in Go where nothing else is said; "+
		"the page has other sizes, many callers, paced ones and cold starts, and says what is not the same for all.\n\n%s\n", chart.Bytes(smallMax), t.markdown())
}

// readmePublished is what others have published, folded: the page has more of it.
func readmePublished(f figures) string {
	var out strings.Builder
	for _, published := range []table{callsTable(f), handoffsTable(f), residentsTable(f)} {
		if text := published.markdown(); text != "" {
			fmt.Fprintf(&out, "%s\n\n%s\n", strings.Join(published.Notes, " "), text)
		}
	}
	if out.Len() == 0 {
		return ""
	}
	return "<details><summary>What others have published, measured here again</summary>\n\n" +
		"The page has four more: many forked callers, Unix sockets against TCP, what a C call costs in Go, and calls with 1 to 32 processors for Go. " +
		"Times are of this machine, beside those of theirs.\n\n" + out.String() + "</details>\n\n"
}

// readmeGoals writes every goal, and what was not measured.
func readmeGoals(r *result.Result) string {
	var out strings.Builder
	all := goals(r)
	met := 0
	for _, goal := range all {
		if goal.Met {
			met++
		}
	}
	fmt.Fprintf(&out, "<details><summary>Goals: %d of %d are met</summary>\n\nGoals are held against the median of the rounds, or of the ratios within each round; tables show p50 and p99 of every call of all rounds.\n\n| goal | bytes | bound | measured | |\n|---|---:|---:|---:|---|\n", met, len(all))
	for _, goal := range all {
		verdict := "met"
		if !goal.Met {
			verdict = "**not met**"
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", goal.Name, goal.Bytes, goal.Bound, goal.Measured, verdict)
	}
	for _, failed := range notMeasured(r) {
		fmt.Fprintf(&out, "\nNot measured: %s, %s.\n", failed.Name(), failed.Why)
	}
	out.WriteString("\n</details>\n")
	return out.String()
}

// firstRows are what a stranger wants to know first, by their names.
var firstRows = []struct{ name, says string }{
	{"nearcall-c-embed", "C, Go in the same process"},
	{"nearcall-perl-embed-typed", "Perl, typed, Go in the same process"},
	{"nearcall-python-embed-typed", "Python, typed, Go in the same process"},
	{"nearcall-perl-embed-child-typed", "Perl, typed, from a forked child of that process"},
	{"floor-c-cgo", "*floor*: an empty Go function, called from C"},
	{"nearcall-c-shm", "C, shared memory"},
	{"nearcall-perl-shm-typed", "Perl, typed, shared memory"},
	{"nearcall-python-shm-typed", "Python, typed, shared memory"},
	{"nearcall-go-shm", "Go, shared memory"},
	{"floor-c-spin", "*floor*: two C processes that bounce 64 bytes through memory"},
	{"nearcall-c-socket", "C, socket"},
	{"nearcall-perl-socket-typed", "Perl, typed, socket"},
	{"nearcall-python-socket-typed", "Python, typed, socket"},
	{"nearcall-go-socket", "Go, socket"},
	{"floor-go-socket", "*floor*: a bare echo server in Go, called from C"},
	{"nearcall-c-shm-pipelined", "C, shared memory, 64 calls in flight; times of all 64"},
	{"nearcall-go-64-shared", "Go, socket, 64 goroutines on one connection"},
	{"floor-go-64-connections", "*floor*: the bare server, 64 connections"},
	{"simple-json", "C, the simple protocol"},
}

// waysTable is the first rows, of small payloads.
func waysTable(f figures) table {
	t := table{Title: "What each way costs", Head: []string{"one call of 64 bytes or less", "p50", "p99", "p99.9", "calls/s over time", "in the slowest 250 ms", "CPU us, caller + server"},
		Notes: []string{"Calls per second are the mean over all time; where those in the slowest quarter of a second stand beside, of a run without a pause. " + apartNote}}
	p999 := distributed(func(r result.Row) string { return duration(r.P999NS) })
	for _, first := range firstRows {
		mean, slowest := f.overTime(first.name)
		t.Lines = append(t.Lines, line{Name: first.says, Cells: f.cells(first.name, medianOf, slowestOf, p999, mean, slowest, cpuPerCall)})
	}
	return t
}

// smallMax is the most bytes of what is small.
const smallMax = 64

// ofSmall finds rows whose payload is small.
func ofSmall(r *result.Result) figures {
	small := *r
	small.Rows = slices.DeleteFunc(slices.Clone(r.Rows), func(row result.Row) bool { return row.Size > smallMax })
	return figuresOf(&small)
}
