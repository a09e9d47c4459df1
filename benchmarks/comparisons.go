package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/benchmarks/sample"
)

// comparisonsText is what is compared.
//
//go:embed comparisons.txt
var comparisonsText string

// comparisons are the goals, and what helps to read them. Their values are still
// to be computed.
func comparisons() []result.Comparison { return comparisonsIn(comparisonsText) }

// comparisonsIn returns those of a text as comparisons.txt is. It panics where that is not
// understood.
func comparisonsIn(text string) []result.Comparison {
	var all []result.Comparison
	for _, line := range (tools{}).lines(text) {
		c, err := comparisonOf(strings.Fields(line))
		if err != nil {
			panic(fmt.Sprintf("comparisons.txt: %q: %v", line, err))
		}
		all = append(all, c)
	}
	return all
}

// kinds and bounds are what comparisons.txt writes as signs.
var (
	kinds  = map[string]string{"/": result.KindRatio, "-": result.KindDifference}
	bounds = map[string]func(float64) *result.Goal{"<=": result.AtMost, "<": result.Under, ">=": result.AtLeast}
)

func comparisonOf(words []string) (c result.Comparison, err error) {
	if len(words)%2 != 0 {
		return c, fmt.Errorf("a word is missing, or one too many")
	}
	c.Kind = result.KindAlone
	if c.Of, err = figureOf(words[1], words[0]); err != nil {
		return c, err
	}
	for sign, rest := words[2:], []string(nil); len(sign) > 0; sign = rest {
		rest = sign[2:]
		if bound, known := bounds[sign[0]]; known {
			value, err := strconv.ParseFloat(sign[1], 64)
			if err != nil {
				return c, err
			}
			c.Goal = bound(value)
			continue
		}
		with, err := figureOf(sign[1], words[0])
		kind, known := kinds[sign[0]]
		if err != nil || !known {
			return c, fmt.Errorf("%s %s is nothing to compare with: %v", sign[0], sign[1], err)
		}
		c.Kind, c.With = kind, &with
	}
	return c, nil
}

// figureOf reads ROW[:BYTES][@FIGURE].
func figureOf(text, figure string) (f result.Figure, err error) {
	text, other, _ := strings.Cut(text, "@")
	row, bytes, _ := strings.Cut(text, ":")
	f = result.Figure{Row: row, Size: smallBytes, Figure: cmp.Or(other, figure)}
	if bytes != "" {
		f.Size, err = strconv.Atoi(bytes)
	}
	if figureIn[f.Figure] == nil {
		err = fmt.Errorf("no round has a figure %s", f.Figure)
	}
	return f, err
}

// compareAll computes the comparisons whose rows were measured, or have failed.
func compareAll(all []result.Comparison, rows []measuredRow) []result.Comparison {
	var done []result.Comparison
	for _, comparison := range all {
		if computed, err := compared(comparison, rows); err == nil {
			done = append(done, computed)
		}
	}
	return done
}

// compared computes and judges a comparison: of each round, then the median of these.
// A row that failed leaves it without a value, and its goal not met.
func compared(c result.Comparison, rows []measuredRow) (result.Comparison, error) {
	var figures [][]float64
	for _, figure := range []*result.Figure{&c.Of, c.With} {
		if figure == nil {
			continue
		}
		row, err := find(rows, figure.Row, figure.Size)
		if err != nil {
			return c, err
		}
		if row.failed != "" {
			c.NotMeasured = figure.Row + " failed: " + row.failed
			return c, nil
		}
		figures = append(figures, row.figures(figureIn[figure.Figure]))
	}
	values := figures[0]
	if c.With != nil {
		combine := sample.Ratios
		if c.Kind == result.KindDifference {
			combine = sample.Differences
		}
		// A run that is ended leaves some rows a round more than others.
		both := min(len(values), len(figures[1]))
		values = combine(values[:both], figures[1][:both])
	}
	c.Value = rounded(sample.Median(values), 3)
	c.Goal = c.Goal.Judged(c.Value)
	return c, nil
}

// figureIn is where a round has its figures.
var figureIn = map[string]func(round) float64{
	result.FigureP50: p50, result.FigureP99: p99, result.FigurePerS: perSecond,
	result.FigureOfMost: ofMost, result.FigureBelow: shareBelow, result.FigureMeanOfP50: meanOfP50, result.FigureBesideCPUs: besideCPUs,
}

func find(rows []measuredRow, name string, size int) (measuredRow, error) {
	for _, row := range rows {
		if row.plan.name == name && row.plan.size == size {
			return row, nil
		}
	}
	return measuredRow{}, fmt.Errorf("the row %s of %d bytes was not measured", name, size)
}
