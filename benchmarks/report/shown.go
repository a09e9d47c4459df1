package report

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/nearcall/nearcall/benchmarks/chart"
)

//go:embed shown.txt
var shownText string

var shownTemplate = template.Must(template.New("shown.txt").Funcs(template.FuncMap{
	"slow": func() string { return slow }, "functions": func() []string { return PublishedFunctions }, "thousands": thousands[int],
	"many": func() []int { return ManyCallers }, "processors": func() []int { return Processors },
	"large": func() []int { return LargeBytes },
	"value": func() []int { return ValueBytes },
	"bytes": func(size int) string { return chart.Bytes(float64(size)) },
}).Parse(shownText))

// described returns what shown.txt describes, as far as a run has something of it.
func described(r run) (tables []table, charts []drawing) {
	var text strings.Builder
	if err := shownTemplate.Execute(&text, r); err != nil {
		panic(err)
	}
	for _, p := range paragraphs(text.String(), "table", "chart") {
		if p[0].keyword == "table" {
			tables = append(tables, p.table())
		} else {
			charts = append(charts, p.chart())
		}
	}
	return tables, charts
}

// A statement is a line of text that begins with a keyword.
type statement struct {
	keyword, text string
	fields        []string // of the text
}

// A paragraph is statements, of which only the first has its keyword.
type paragraph []statement

func paragraphs(text string, first ...string) (all []paragraph) {
	for line := range strings.Lines(text) {
		keyword, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		s := statement{keyword: keyword, text: rest}
		for field := range strings.SplitSeq(rest, "|") {
			s.fields = append(s.fields, strings.TrimSpace(field))
		}
		if slices.Contains(first, keyword) {
			all = append(all, nil)
		}
		if keyword != "" {
			all[len(all)-1] = append(all[len(all)-1], s)
		}
	}
	return all
}

func (p paragraph) table() table {
	t := table{id: p[0].text}
	t.Class = t.section()
	for _, s := range p[1:] {
		switch s.keyword {
		case "title":
			t.Title = s.text
		case "note":
			t.Notes = append(t.Notes, s.text)
		case "head":
			t.Head = s.text
		case "columns":
			for _, field := range s.fields {
				t.Columns = append(t.Columns, columnOf(field))
			}
		case "line", "first":
			t.Lines = append(t.Lines, lineOf(s))
		default:
			panic(fmt.Sprintf("shown.txt has %q in a table", s.keyword))
		}
	}
	return t
}

// columnOf reads HEAD = FIGURE @ NAME.
func columnOf(field string) column {
	field, name, _ := strings.Cut(field, " @ ")
	head, figure, named := strings.Cut(field, " = ")
	if !named {
		figure = head
	}
	return column{Head: head, figure: figure, name: name}
}

// lineOf reads TEXT // UNDER | ROW as FIGURE | PUBLISHED | ...
func lineOf(s statement) line {
	l := line{First: s.keyword == "first"}
	l.Name, l.Under, _ = strings.Cut(s.fields[0], " // ")
	l.row, l.figure, _ = strings.Cut(s.fields[1], " as ")
	l.published = s.fields[2:]
	return l
}

// chart reads a title, axes and ways.
func (p paragraph) chart() drawing {
	d := drawing{id: p[0].text}
	for _, s := range p[1:] {
		switch s.keyword {
		case "title":
			d.title = append(d.title, s.text)
		case "axes":
			d.x, d.y = s.fields[0], s.fields[1]
		case "line":
			says, row, _ := strings.Cut(s.text, " | ")
			d.ways = append(d.ways, way{says, row})
		default:
			panic(fmt.Sprintf("shown.txt has %q in a chart", s.keyword))
		}
	}
	return d
}
