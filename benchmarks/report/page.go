package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/nearcall/nearcall/benchmarks/chart"
	"github.com/nearcall/nearcall/benchmarks/result"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"duration": duration, "cpu": cpu, "thousands": thousands, "picture": inPage, "distributed": func(r result.Row) bool { return r.Histogram != nil },
	"whole": func(n int) string { return thousands(float64(n)) },
}).Parse(pageText))

// inPage is a chart as part of a page.
func inPage(c chart.Chart) (template.HTML, error) {
	svg, err := chart.SVG(c)
	return template.HTML(svg), err //nolint:gosec // chart escapes what it is given
}

// A section is a table with its charts.
type section struct {
	table
	ID     string
	Charts []chart.Chart
}

// Measured reports whether the section has anything of this run.
func (s section) Measured() bool { return s.measured() }

// A groupOf is the rows that took turns.
type groupOf struct {
	Name   string
	Rows   []result.Row
	Charts []chart.Chart
}

// A fact is a name and what it is.
type fact struct{ Name, Is string }

// pageView is what the page shows.
type pageView struct {
	*result.Result
	Day       string
	Machine   []fact
	Method    []fact
	Goals     []goal
	NotMet    []goal
	Kept      []goal
	Gaps      []gap
	Missing   int
	Ways      []wayRow
	Main      []chart.Chart
	Groups    []groupOf
	Callers   []chart.Chart
	Sizes     []chart.Chart
	Many      section
	Published []section
	Peers     peersView
	AllCount  int
}

// A wayRow is a row with what it is in words.
type wayRow struct {
	Says string
	Row  result.Row
}

// page writes the result as one page that needs nothing else.
func page(r *result.Result) ([]byte, error) {
	f := figuresOf(r)
	view := pageView{
		Result: r, Day: r.Date.Format(time.DateOnly), Machine: machineFacts(r), Method: methodFacts(r), Goals: goals(r), Gaps: notMeasured(r),
		Ways: waysOf(r), Groups: groupsOf(r), Callers: callersCharts(r), Sizes: sizeCharts(r), Peers: peersOf(r), AllCount: len(r.Rows),
		Many: section{table: callersTable(f), ID: "many"},
	}
	for _, gap := range view.Gaps {
		view.Missing += len(gap.Names)
	}
	for _, goal := range view.Goals {
		if goal.Met {
			view.Kept = append(view.Kept, goal)
		} else {
			view.NotMet = append(view.NotMet, goal)
		}
	}
	if drawn, ok := mainDistribution(r); ok {
		view.Main = append(view.Main, drawn)
	}
	for i, t := range publishedTables(f) {
		s := section{table: t, ID: fmt.Sprintf("published-%d", i+1)}
		switch t.Title {
		case pollerTitle:
			s.Charts = pollerCharts(r)
		case crossingsTitle:
			s.Charts = crossingCharts(r)
		}
		view.Published = append(view.Published, s)
	}
	var out bytes.Buffer
	err := pageTemplate.Execute(&out, view)
	return out.Bytes(), err
}

func machineFacts(r *result.Result) []fact {
	m, v := r.Machine, r.Versions
	return []fact{
		{"Processor", fmt.Sprintf("%s, %d CPUs, %s, SMT %s", m.CPU, m.CPUs, m.Architecture, m.SMT)},
		{"Kernel", fmt.Sprintf("%s; idle driver %s; virtualisation %s", m.Kernel, m.IdleDriver, m.Virtualisation)},
		{"Versions", fmt.Sprintf("Nearcall %s, %s, gcc %s, Perl %s, Python %s", v.Nearcall, v.Go, v.C, v.Perl, v.Python)},
	}
}

func methodFacts(r *result.Result) []fact {
	m := r.Method
	return []fact{
		{"Rounds", fmt.Sprintf("%d of %d ms for each row, or as many as its group needs; %s", m.Rounds, m.RoundMS, m.Order)},
		{"Warm-up", fmt.Sprintf("each row runs for %d ms before anything counts", m.WarmUpMS)},
		{"Percentiles", "from the time of every single call, taken by the caller; they are of every call of all rounds; calls per second are the median over the rounds"},
		{"Pacing", "a caller waits for an answer before it calls again, so a stall is one slow call; rows named paced make all calls that are due at fixed times, and time one that was held up from when it was due; that a timer wakes its caller late, by a pace or 1 ms at most, is left out"},
		{"Affinity", m.Pinning},
		{"Waiting", fmt.Sprintf("spinning is %s; GOMAXPROCS %d", m.SpinSettings, m.GoMaxProcs)},
		{"Ratios", "are taken in each round, and their median is reported; rows that are compared take turns in one run"},
		{"CPU", "of caller and server from their process clocks around each round: what was fast because it burned a processor shows"},
		{"Failures", "what failed or is missing says so, and nothing stands in for it"},
	}
}

func waysOf(r *result.Result) []wayRow {
	var all []wayRow
	for _, first := range firstRows {
		if row, found := firstRow(r, first.name); found {
			all = append(all, wayRow{strings.ReplaceAll(first.says, "*", ""), row})
		}
	}
	return all
}

// groupsOf returns the rows by their groups, in the order in which they ran.
func groupsOf(r *result.Result) []groupOf {
	var all []groupOf
	at := map[string]int{}
	for _, row := range r.Rows {
		if _, known := at[row.Group]; !known {
			at[row.Group] = len(all)
			all = append(all, groupOf{Name: row.Group})
		}
		group := &all[at[row.Group]]
		group.Rows = append(group.Rows, row)
	}
	for i := range all {
		all[i].Charts = distributions(all[i].Name, all[i].Rows)
	}
	return all
}
