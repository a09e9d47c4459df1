// Command benchmarks measures whole calls between processes and says which goals
// were met: see README.md. `make bench` and `make bench-quick` start it through
// the script run, which builds what it runs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
)

type options struct {
	tools
	quick   bool
	rounds  int
	plan    bool
	render  bool
	check   bool
	allowed bool
	only    string
	out     string
	base    string
	builtIn time.Duration
	sets    int
	pairs   int
	judge   bool
}

func main() {
	// A process started by a thread is killed when that thread ends; the main
	// one does not.
	runtime.LockOSThread()
	var o options
	flag.StringVar(&o.root, "root", ".", "the repository")
	flag.StringVar(&o.perl, "perl", "perl", "the Perl to call from")
	flag.StringVar(&o.python, "python", "", "the Python to call from (default build/venv's)")
	flag.BoolVar(&o.quick, "quick", false, "finish within a minute and a half: fewer groups, in few short rounds; documents are left as they are")
	flag.IntVar(&o.rounds, "rounds", 0, "so many rounds, `N`, instead of the usual number; where a group cuts its rounds into slices each of them counts")
	flag.BoolVar(&o.plan, "plan", false, "measure nothing; print what would be measured, and how long it would take")
	flag.BoolVar(&o.render, "render", false, "measure nothing; write the figures in README.md and docs, the pictures and the report from latest.json")
	flag.BoolVar(&o.check, "check", false, "measure nothing; fail when -render would change anything, or latest.json is not all that a full run measures")
	flag.BoolVar(&o.allowed, "allowed", false, "measure nothing; fail when a run with the other options would be refused, as where documents would show a tree that is of no revision")
	flag.StringVar(&o.only, "only", "", "measure only groups, rows and parts whose name matches this `regexp`; the result is printed, and kept only in -out")
	flag.StringVar(&o.out, "out", "", "the `folder` of result, pictures and report (default benchmarks/results; with -quick build/benchmarks/results; with -only none)")
	flag.StringVar(&o.base, "base", "", "compare: measure rows of this `tree` and of -root in pairs of turns, keep these in -out, and fail where -root is slower")
	flag.IntVar(&o.sets, "sets", 12, "with -base: how often all processes are started anew")
	flag.IntVar(&o.pairs, "pairs", 24, "with -base: turns that each side takes in a set, for each row")
	flag.BoolVar(&o.judge, "judge", false, "measure nothing; judge the turns again that a comparison has left in -out")
	flag.DurationVar(&o.builtIn, "built-in", 0, "how long `building` took, which is in the time that a full run has; the script run tells")
	flag.Parse()
	if o.python == "" {
		o.python = filepath.Join(o.root, "build/venv/bin/python")
	}
	ctx, release := untilSignal()
	err := o.run(ctx)
	release()
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
	}
	os.Exit(exitCode(err))
}

func (o options) run(ctx context.Context) error {
	if o.check || o.render {
		return o.reportAgain()
	}
	if o.base != "" || o.judge {
		return o.compare(ctx)
	}
	planned, err := o.schedule("")
	if err != nil {
		return err
	}
	if o.plan {
		return planned.print(os.Stdout)
	}
	if o.rounds > 0 && o.inDocuments() {
		return errors.New("with -rounds a run is none that documents may show: add -out FOLDER, -only or -quick")
	}
	if o.allowed {
		return o.unsuitable(&result.Result{Quick: o.quick, Versions: result.Versions{Nearcall: result.Revision(o.root)}})
	}
	return o.measureAndKeep(ctx)
}

// measureAndKeep measures, and keeps the result; or, when the context ends, what there is.
func (o options) measureAndKeep(ctx context.Context) error {
	began := time.Now()
	partly := o.partial()
	defer func() { // also when the program breaks
		if partly.kept {
			fmt.Fprintln(os.Stderr, "benchmarks: not all was measured; what was is in", partly.path)
		}
	}()
	r, err := o.measureAll(ctx, partly)
	if err != nil {
		return err
	}
	took := time.Since(began)
	if err := errors.Join(report.Print(os.Stdout, r), o.keep(r)); err != nil {
		return err
	}
	return errors.Join(partly.forget(), failures(r), o.late(took))
}

// What a run may take, building included in a full one.
const (
	fullLimit  = 50 * time.Minute
	quickLimit = 90 * time.Second
)

// late is an error where a run took longer than it may.
func (o options) late(took time.Duration) error {
	limit := fullLimit
	if o.quick {
		limit = quickLimit
	} else {
		took += o.builtIn
	}
	if o.only != "" || took <= limit {
		return nil
	}
	return fmt.Errorf("it took %s, and has %s: what else runs on this machine, or what was added?", took.Round(time.Second), limit)
}
