// Command compare measures two trees of this repository in turns and fails when the
// second is slower than the first: see tools/bench-compare, which makes the trees.
//
//	compare -base TREE -head TREE -out FOLDER [-rounds N] [-only REGEXP]
//	compare -judge -out FOLDER
//
// Both trees are measured by this tree's program, so that they differ in what they
// serve and call with, and in nothing else. Results are written in the format of Go's
// benchmarks: FOLDER/base.txt and FOLDER/head.txt, for benchstat. With -judge nothing is
// measured, and those files count.
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
	rounds, turns         int
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
	flag.IntVar(&o.turns, "turns", 10, "how often each side is measured")
	flag.IntVar(&o.rounds, "rounds", 4, "rounds in each of these")
	flag.BoolVar(&o.judge, "judge", false, "measure nothing; judge what was measured before")
	flag.Parse()
	err := o.run()
	if err != nil {
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
	sides := map[string]gate.Times{}
	for _, name := range []string{"base", "head"} {
		file, err := os.Open(o.results(name))
		if err != nil {
			return err
		}
		sides[name], err = gate.Read(file, file.Name())
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	verdict, err := gate.Judge(sides["base"], sides["head"])
	if err != nil {
		return err
	}
	for _, name := range verdict.LeftOut {
		fmt.Println("only one side has", name)
	}
	fmt.Println(verdict)
	if verdict.Worse() {
		return errWorse
	}
	return nil
}

func (o options) results(side string) string { return filepath.Join(o.out, side+".txt") }

// measure lets both sides run in turns; who is first takes turns as well.
func (o options) measure() error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for _, side := range []string{"base", "head"} {
		if err := os.WriteFile(o.results(side), nil, 0o644); err != nil {
			return err
		}
	}
	for n := range 2 * o.turns {
		side, tree := "base", o.base
		if n%4 == 1 || n%4 == 2 {
			side, tree = "head", o.head
		}
		fmt.Fprintf(os.Stderr, "%d of %d: %s\n", n+1, 2*o.turns, side)
		if err := o.measureOnce(side, tree); err != nil {
			return fmt.Errorf("%s: %w", side, err)
		}
	}
	return nil
}

// measureOnce adds one run of a side to its results.
func (o options) measureOnce(side, tree string) error {
	folder := filepath.Join(o.out, "last-"+side)
	harness := exec.Command(filepath.Join(o.head, "build/benchmarks/benchmarks"), "-root", tree, "-quick",
		"-rounds", strconv.Itoa(o.rounds), "-only", o.only, "-out", folder)
	harness.Stderr = os.Stderr
	if output, err := harness.Output(); err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	return appendResult(o.results(side), filepath.Join(folder, "latest.json"))
}
