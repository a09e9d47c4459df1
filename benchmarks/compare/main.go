// Command compare measures two trees of this repository in pairs of turns and fails when
// the second is slower than the first: see tools/bench-compare, which makes the trees,
// and package gate, which says when a difference is one.
//
//	compare -base TREE -head TREE -out FOLDER [-sets N] [-pairs N] [-only REGEXP]
//	compare -judge -out FOLDER
//
// Both trees are measured by the second one's program, so that they differ in what they
// serve and call with, and in nothing else. All turns are kept in FOLDER/turns.json.
// With -judge nothing is measured, and that file counts.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/nearcall/nearcall/benchmarks/gate"
)

type options struct {
	base, head, out, only string
	sets, pairs           int
	judge                 bool
}

// errWorse ends a comparison that has said everything.
var errWorse = errors.New("head is slower than base")

func main() {
	var o options
	flag.StringVar(&o.base, "base", "", "the `tree` to compare with, built")
	flag.StringVar(&o.head, "head", "", "the `tree` that is judged, built")
	flag.StringVar(&o.out, "out", "", "the `folder` for results")
	flag.StringVar(&o.only, "only", "^(small|embed|pipelined)$", "the groups and rows that count, as the benchmarks' own flag")
	flag.IntVar(&o.sets, "sets", 12, "how often all processes are started anew")
	flag.IntVar(&o.pairs, "pairs", 24, "turns that each side takes in a set, for each row")
	flag.BoolVar(&o.judge, "judge", false, "measure nothing; judge what was measured before")
	flag.Parse()
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func (o options) run() error {
	if !o.judge {
		if err := o.measure(); err != nil {
			return err
		}
	}
	rows, err := gate.Read(o.turns())
	if err != nil {
		return err
	}
	judged, err := gate.Judge(rows)
	if err := errors.Join(err, gate.Print(os.Stdout, judged)); err != nil {
		return err
	}
	for _, row := range judged {
		if row.Worse() {
			return errWorse
		}
	}
	return nil
}

func (o options) turns() string { return filepath.Join(o.out, "turns.json") }

// measure keeps what there is after each set.
func (o options) measure() error {
	if o.sets < gate.SetsMin {
		return fmt.Errorf("%d sets: no difference is told from chance by fewer than %d", o.sets, gate.SetsMin)
	}
	var rows []gate.Row
	for n := range o.sets {
		fmt.Fprintf(os.Stderr, "set %d of %d\n", n+1, o.sets)
		set, err := o.measureSet()
		if err == nil {
			rows, err = gate.Join(rows, set)
		}
		if err == nil {
			err = gate.Write(o.turns(), rows)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// measureSet measures all rows once, with processes of their own.
func (o options) measureSet() ([]gate.Row, error) {
	folder := filepath.Join(o.out, "last")
	harness := exec.Command(filepath.Join(o.head, "build/benchmarks/benchmarks"), "-root", o.head, "-base", o.base,
		"-quick", "-rounds", strconv.Itoa(o.pairs), "-only", o.only, "-out", folder)
	harness.Stderr = os.Stderr
	if output, err := harness.Output(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, output)
	}
	return gate.Read(filepath.Join(folder, gate.SetName))
}
