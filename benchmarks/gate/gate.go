// Package gate judges whether calls have become slower from one tree to another.
//
// Three things move what a turn of calls takes, beside the code. Moods of the machine,
// of milliseconds to minutes, hit both turns of a pair alike: so what counts is their
// ratio, and the median of the ratios, for a mood may begin between the two. Where calls
// have several paces, such as with and without sleep, chance picks one for each turn: so
// only turns at the fastest are compared, each side's by its own. What is drawn once for
// the life of a process, such as where its memory lies, stays the same in all pairs of a
// set: so a set, of processes of its own, is one sample and its turns are none. What is
// left over is not normal: so the interval is that of a median, by order statistics,
// which assumes no distribution.
//
// J. Chen and J. Revels, "Robust benchmarking in noisy environments", 2016
// (arXiv:1608.04295): times of one process are neither independent nor alike, and the
// fastest of them tell most of the program. T. Kalibera and R. Jones, "Rigorous
// benchmarking in reasonable time", 2013: why processes have to be repeated.
package gate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"

	"github.com/nearcall/nearcall/benchmarks/sample"
)

const (
	// WorseMax is what a row may become worse by: 5 %.
	WorseMax = 1.05
	// Confidence is that of each row's interval. There are two dozen rows.
	Confidence = 0.99
	// SetsMin is how many sets it takes before such an interval has an end.
	SetsMin = 8
	// paceMax is how many times as long as its fastest tenth a turn may take to count.
	paceMax = 2
	// pairsMin is how many pairs of a set have to.
	pairsMin = 3
)

// A Set is what both sides took, in ns, in turns of one set of processes: turn n of one
// was beside turn n of the other.
type Set struct {
	Base []float64 `json:"base_ns"`
	Head []float64 `json:"head_ns"`
}

// A Row is one way to call.
type Row struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
	Sets  []Set  `json:"sets"`
	// Why a side has no turns in a set, or in any.
	FailedBase string `json:"failed_base,omitempty"`
	FailedHead string `json:"failed_head,omitempty"`
}

// Join adds what was measured later of the same rows.
func Join(rows, later []Row) ([]Row, error) {
	if rows == nil {
		return later, nil
	}
	if len(rows) != len(later) {
		return nil, fmt.Errorf("%d rows follow %d rows", len(later), len(rows))
	}
	joined := slices.Clone(rows)
	for i, row := range later {
		if row.Name != rows[i].Name || row.Bytes != rows[i].Bytes {
			return nil, fmt.Errorf("row %s follows row %s", row.Name, rows[i].Name)
		}
		joined[i].Sets = slices.Concat(rows[i].Sets, row.Sets)
		joined[i].FailedBase = cmp.Or(row.FailedBase, rows[i].FailedBase)
		joined[i].FailedHead = cmp.Or(row.FailedHead, rows[i].FailedHead)
	}
	return joined, nil
}

// A Judgement is how head stands to base in one row.
type Judgement struct {
	Row
	// Middle, Low and High are of head's time divided by base's.
	Middle, Low, High float64
	// Compared is in how many of all pairs both sides were at their pace.
	Compared, Pairs int
	// LeftOut is why the row is not judged.
	LeftOut string
}

// Worse reports whether the row fails: slower by more than WorseMax, and not by chance;
// or no longer there.
func (j Judgement) Worse() bool {
	if j.LeftOut != "" {
		return j.FailedHead != ""
	}
	return j.Middle > WorseMax && j.Low > 1
}

// Judge judges every row.
func Judge(rows []Row) ([]Judgement, error) {
	var judged []Judgement
	compared := false
	for _, row := range rows {
		j := judge(row)
		compared = compared || j.LeftOut == ""
		judged = append(judged, j)
	}
	if !compared {
		return judged, errors.New("no row was measured on both sides often enough")
	}
	return judged, nil
}

func judge(row Row) Judgement {
	j := Judgement{Row: row}
	baseMax, headMax := row.paces()
	var logs []float64 // of each set's ratio
	for _, set := range row.Sets {
		ratios := set.ratios(baseMax, headMax)
		j.Pairs, j.Compared = j.Pairs+len(set.Base), j.Compared+len(ratios)
		if len(ratios) >= pairsMin {
			logs = append(logs, math.Log(sample.Median(ratios)))
		}
	}
	if len(logs) < SetsMin {
		j.LeftOut = cmp.Or(row.FailedHead, row.FailedBase, fmt.Sprintf("in %d sets both sides came to their pace; it takes %d", len(logs), SetsMin))
		return j
	}
	summary := benchmath.AssumeNothing.Summary(benchmath.NewSample(logs, &benchmath.DefaultThresholds), Confidence)
	j.Middle, j.Low, j.High = math.Exp(summary.Center), math.Exp(summary.Lo), math.Exp(summary.Hi)
	return j
}

// paces returns up to what time a turn of either side is at its pace.
func (r Row) paces() (baseMax, headMax float64) {
	var base, head []float64
	for _, set := range r.Sets {
		base, head = append(base, set.Base...), append(head, set.Head...)
	}
	return pace(base), pace(head)
}

// pace is of a side alone: so one that is slower throughout is at its pace, too, and
// compared.
func pace(turns []float64) float64 {
	if len(turns) == 0 {
		return 0
	}
	slices.Sort(turns)
	return paceMax * turns[len(turns)/10]
}

// ratios are of those pairs in which both sides were at their pace.
func (s Set) ratios(baseMax, headMax float64) []float64 {
	var ratios []float64
	for i, base := range s.Base {
		if base <= baseMax && s.Head[i] <= headMax {
			ratios = append(ratios, s.Head[i]/base)
		}
	}
	return ratios
}
