// Package result is what a run of the benchmarks leaves behind: the file that
// ../README.md describes.
package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"time"
)

// Schema is the version of the file's form. No other is read.
const Schema = 3

// A Result is one run.
type Result struct {
	Schema      int          `json:"schema"`
	Date        time.Time    `json:"date"`
	Quick       bool         `json:"quick"`
	Machine     Machine      `json:"machine"`
	LoadBefore  Load         `json:"load_before"`
	LoadAfter   Load         `json:"load_after"`
	Versions    Versions     `json:"versions"`
	Method      Method       `json:"method"`
	Rows        []Row        `json:"rows"`
	Comparisons []Comparison `json:"comparisons"`
	Measures    []Measure    `json:"measures"`
	LeftOut     []LeftOut    `json:"left_out,omitempty"`
	Peers       []Peer       `json:"peers,omitempty"`
}

// A Peer is another way to call that was measured beside, and how it was set up.
type Peer struct {
	Name          string `json:"name"` // as in its rows
	Version       string `json:"version"`
	Language      string `json:"language"`    // of the caller, and of the server where that differs
	Connections   string `json:"connections"` // which several callers have, such as "one for all callers" or "one each"
	Configuration string `json:"configuration"`
	Documentation string `json:"documentation"` // where that is recommended
}

// A LeftOut is a group of rows or a part that was not measured: this machine cannot,
// or it failed.
type LeftOut struct {
	Group  string `json:"group"`
	Why    string `json:"why"`
	Failed bool   `json:"failed,omitempty"`
}

// Method says how the rows were measured.
type Method struct {
	Rounds       int    `json:"rounds"`
	RoundMS      int    `json:"round_ms"`
	WarmUpMS     int    `json:"warm_up_ms"`
	Order        string `json:"order"`
	Pinning      string `json:"pinning"`
	GoMaxProcs   int    `json:"gomaxprocs"`
	SpinSettings string `json:"spin_settings"`
}

// The kinds of comparison.
const (
	KindRatio      = "ratio"      // of one row's figure to another's
	KindDifference = "difference" // of one row's figure less another's, in its unit
	KindAlone      = "alone"      // a row's own figure
)

// The figures of rows that are compared.
const (
	FigureP50  = "p50_ns"
	FigureP99  = "p99_ns"
	FigurePerS = "per_s"

	// Of rows that are counted by windows.
	FigureOfMost     = "mean_of_most"     // calls per second in the mean, as a share of the best window's
	FigureBelow      = "below_slow_share" // the share of windows with fewer than SlowPerS calls per second
	FigureMeanOfP50  = "mean_of_p50"      // the mean of a call divided by its p50
	FigureBesideCPUs = "beside_cpus"      // how many CPUs who else had the machine had
)

// A Comparison is what a goal looks at: per round, then the median over the rounds.
type Comparison struct {
	Kind  string  `json:"kind"`
	Of    Figure  `json:"of"`
	With  *Figure `json:"with,omitempty"` // nil when Of stands alone
	Value float64 `json:"value"`
	Goal  *Goal   `json:"goal,omitempty"`
	// NotMeasured says why there is no value; the goal is not met then.
	NotMeasured string `json:"not_measured,omitempty"`
}

// A Figure is one of a row.
type Figure struct {
	Row    string `json:"row"`
	Size   int    `json:"size"`
	Figure string `json:"figure"`
}

// A Measure is a figure that is not a time.
type Measure struct {
	Name  string  `json:"name"`
	Part  string  `json:"part,omitempty"` // of the program that measured it
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Goal  *Goal   `json:"goal,omitempty"`
}

// A Goal is a bound and whether it was kept.
type Goal struct {
	AtMost  *float64 `json:"at_most,omitempty"`
	AtLeast *float64 `json:"at_least,omitempty"`
	Under   *float64 `json:"under,omitempty"`
	Met     bool     `json:"met"`
}

// AtMost returns the goal that a figure is at most bound.
func AtMost(bound float64) *Goal { return &Goal{AtMost: &bound} }

// AtLeast returns the goal that a figure is at least bound.
func AtLeast(bound float64) *Goal { return &Goal{AtLeast: &bound} }

// Under returns the goal that a figure is less than bound.
func Under(bound float64) *Goal { return &Goal{Under: &bound} }

// Judged returns a copy of the goal that knows whether value keeps it; nil for
// no goal.
func (g *Goal) Judged(value float64) *Goal {
	if g == nil {
		return nil
	}
	judged := *g
	// Written so that NaN, which nothing was measured for, keeps no goal.
	judged.Met = (g.AtMost == nil || value <= *g.AtMost) && (g.AtLeast == nil || value >= *g.AtLeast) &&
		(g.Under == nil || value < *g.Under)
	return &judged
}

// Read reads a result's file.
func Read(path string) (*Result, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w; `make bench` writes it", err)
	}
	var r Result
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("%s: has schema %d, this program reads %d; run: make bench", path, r.Schema, Schema)
	}
	return &r, nil
}

// numbers are lists of them over several lines. No string has a line break as such.
var numbers = regexp.MustCompile(`\[\n[\s\d.,eE+-]*\]`)

// inOneLine takes out line breaks and spaces.
func inOneLine(list []byte) []byte { return bytes.Join(bytes.Fields(list), nil) }

// Write writes a result's file as a whole or not at all.
func (r *Result) Write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	text = numbers.ReplaceAllFunc(text, inOneLine)
	temporary := path + ".new"
	if err := os.WriteFile(temporary, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
