package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/chart"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// resultsFromDocs is where docs/measured.md finds pictures and page.
const resultsFromDocs = "../" + resultsFolder

// measuredFigures are all tables, as Markdown, but those that the page alone has.
func measuredFigures(r *result.Result) string {
	f := figuresOf(r)
	var out strings.Builder
	fmt.Fprintf(&out, "%s\nThe report, [report.html](%s/%s), has every row, the distribution of each, and more of what others have published;\n"+
		"it is a page to open from a clone.\n\n", ofRun(r), resultsFromDocs, PageName)
	for _, part := range []struct{ title, text string }{
		{"What each way costs", waysText(r)},
		{"Calls per second over time", overTimeText(r, f)},
		{"More callers, and larger payloads", picturesText(r, resultsFromDocs, CallersName, SizesName)},
		{"Other ways to call another process", peersText(r)},
		{"What others have published", publishedText(f)},
		{notFastestTitle, notFastestText(r)},
		{goalsTitle, goalsText(r)},
		{"What was not measured", notMeasuredText(r)},
	} {
		if part.text != "" {
			fmt.Fprintf(&out, "## %s\n\n%s\n\n", part.title, strings.TrimRight(part.text, "\n"))
		}
	}
	return out.String()
}

// waysText is all first rows, and how their times are distributed.
func waysText(r *result.Result) string {
	ways := waysTable(ofSmall(r), firstWays)
	if !ways.measured() {
		return ""
	}
	return fmt.Sprintf("%s\n%s\n\n%s", ways.markdown(), strings.Join(ways.Notes, " "), picturesText(r, resultsFromDocs, DistributionsName))
}

// overTimeText is all conditions.
func overTimeText(r *result.Result, f figures) string {
	tables := tablesText(overTimeTables(f))
	if tables == "" {
		return ""
	}
	return "Percentiles of calls hide time, for a second in which few calls are made has few of them. So callers also call for long without a pause, and their calls are counted by when they end.\n\n" +
		picturesText(r, resultsFromDocs, OverTimeName) + tables
}

// tablesText is those of some tables that have figures, each under its title.
func tablesText(tables []table) string {
	var out strings.Builder
	for _, t := range tables {
		if text := t.markdown(); text != "" {
			fmt.Fprintf(&out, "### %s\n\n%s\n\n%s\n", t.Title, strings.Join(t.Notes, " "), text)
		}
	}
	return out.String()
}

// peersText is one size with one caller; the page has all of them.
func peersText(r *result.Result) string {
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
	return fmt.Sprintf("One caller sends %s and gets them back, in Go where no other language is named. The report says how each way was set up and in what they differ, "+
		"and has other sizes, many callers, callers that pause, and cold starts.\n\n%s", chart.Bytes(smallMax), t.markdown())
}

// publishedText is most of what others have published.
func publishedText(f figures) string {
	text := tablesText([]table{callsTable(f), handoffsTable(f), residentsTable(f)})
	if text == "" {
		return ""
	}
	return "Figures of this machine stand beside those that were published. The report has four more comparisons: many forked callers, Unix sockets against TCP, " +
		"what a call of C costs in Go, and calls where Go has 1 to 32 processors.\n\n" + text
}

// notFastestText says in a line for each reason what was faster than Nearcall.
func notFastestText(r *result.Result) string {
	families, compared := notFastest(r)
	if compared == 0 {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d rows are of other ways, floors among them, and have a row of Nearcall beside them that does the same work; a peer stands beside Nearcall's best row from the same language. "+
		"The median of their rounds is lower than that of Nearcall's best in %d:\n\n", compared, rowsOf(families))
	for _, family := range families {
		fmt.Fprintf(&out, "* %s. %s\n", family.Summary(), family.ReasonText())
	}
	return out.String()
}

const goalsTitle = "Goals"

// metOf is how many goals are met.
func metOf(all []goal) int {
	met := 0
	for _, goal := range all {
		if goal.Met {
			met++
		}
	}
	return met
}

// goalsText is every goal.
func goalsText(r *result.Result) string {
	all := goals(r)
	if len(all) == 0 {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d of %d are met. Goals are held against the median of the rounds, or of the ratios within each round, whereas tables show p50 and p99 of every call of all rounds.\n\n"+
		"| goal | bytes | bound | measured | |\n|---|---:|---:|---:|---|\n", metOf(all), len(all))
	for _, goal := range all {
		verdict := "met"
		if !goal.Met {
			verdict = "**not met**"
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", goal.Name, goal.Bytes, goal.Bound, goal.Measured, verdict)
	}
	return out.String()
}

// notMeasuredText is what is missing, by reasons.
func notMeasuredText(r *result.Result) string {
	var out strings.Builder
	for _, gap := range notMeasured(r) {
		fmt.Fprintf(&out, "* %s\n", sentence(gap.Name()+": "+gap.Why))
	}
	return out.String()
}
