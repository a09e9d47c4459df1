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
	"duration": duration, "picture": inPage, "sentence": sentence, "link": isLink, "goalsTable": goalsTable,
}).Parse(pageText))

// inPage is a chart as part of a page.
func inPage(c chart.Chart) (template.HTML, error) {
	svg, err := chart.SVG(c)
	return template.HTML(svg), err //nolint:gosec // chart escapes what it is given
}

// isLink reports whether a text is an address to open.
func isLink(text string) bool { return strings.HasPrefix(text, "https://") }

// A section is a table with its charts.
type section struct {
	table
	ID     string
	Class  string // how it looks
	Charts []figure
}

// Measured reports whether the section has anything of this run.
func (s section) Measured() bool { return s.measured() }

// A rowGroup is the rows that took turns.
type rowGroup struct {
	Name   string
	Rows   []result.Row
	Table  section
	Charts []figure
}

// pageView is what the page shows.
type pageView struct {
	*result.Result
	Day       string
	Machine   []fact
	Method    []fact
	Goals     []goal
	NotMet    []goal
	Kept      []goal
	Beaten    []beatenFamily
	Compared  int // rows of others that stand beside Nearcall's
	Gaps      []gap
	Missing   int
	Ways      section
	OverTime  []section
	Main      []figure
	Groups    []rowGroup
	Callers   []figure
	Sizes     []figure
	Many      []section
	Published []section
	Peers     peersView
	Counts    section
	AllCount  int
}

// plainText is a table whose names have no marks of Markdown.
func plainText(t table) table {
	for i := range t.Lines {
		t.Lines[i].Name = strings.ReplaceAll(t.Lines[i].Name, "*", "")
	}
	return t
}

// page writes the result as one page that needs nothing else.
func page(r *result.Result) ([]byte, error) {
	f := figuresOf(r)
	view := pageView{
		Result: r, Day: r.Date.Format(time.DateOnly), Machine: machineFacts(r), Method: methodFacts(r), Goals: goals(r), Gaps: notMeasured(r),
		Groups: groupsOf(r), Callers: callersCharts(r), Sizes: sizeCharts(r), Peers: peersOf(r), AllCount: len(r.Rows),
		Ways:   section{table: plainText(waysTable(ofSmall(r), firstWays)), ID: "way-table", Class: "ways"},
		Counts: section{table: measuresTable(r.Measures), ID: "measures"},
	}
	view.Beaten, view.Compared = notFastest(r)
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
	view.OverTime = overTimeSections(f)
	view.Published = publishedSections(r, f)
	for i, t := range callersTables(f) {
		view.Many = append(view.Many, section{table: t, ID: fmt.Sprintf("many-%d", i+1)})
	}
	var out bytes.Buffer
	err := pageTemplate.Execute(&out, view)
	return out.Bytes(), err
}

func overTimeSections(f figures) []section {
	var all []section
	for i, t := range overTimeTables(f) {
		var charts nonEmptyCharts
		if i < len(conditions) {
			charts.add(overTimeChart(f, conditions[i]))
		}
		all = append(all, section{table: plainText(t), ID: fmt.Sprintf("over-time-%d", i+1), Class: "ways", Charts: charts})
	}
	return all
}

func publishedSections(r *result.Result, f figures) []section {
	var all []section
	for i, t := range publishedTables(f) {
		s := section{table: t, ID: fmt.Sprintf("published-%d", i+1)}
		switch t.Title {
		case pollerTitle:
			s.Charts = pollerCharts(r)
		case crossingsTitle:
			s.Charts = crossingCharts(r)
		}
		all = append(all, s)
	}
	return all
}

// groupsOf returns the rows by their groups, in the order in which they ran.
func groupsOf(r *result.Result) []rowGroup {
	var all []rowGroup
	at := map[string]int{}
	for _, row := range r.Rows {
		if _, known := at[row.Group]; !known {
			at[row.Group] = len(all)
			all = append(all, rowGroup{Name: row.Group})
		}
		group := &all[at[row.Group]]
		group.Rows = append(group.Rows, row)
	}
	for i := range all {
		all[i].Charts = distributions(all[i].Name, all[i].Rows)
		all[i].Table = section{table: rowsTable("All figures of "+all[i].Name, all[i].Rows), ID: "rows-" + all[i].Name, Class: "rows"}
	}
	return all
}
