// Command benchmarks measures whole calls between processes and says which goals
// were met: see README.md. `make bench` and `make bench-quick` start it through
// the script run, which builds what it runs.
package main

import (
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
	quick  bool
	rounds int
	plan   bool
	render bool
	check  bool
	only   string
	out    string
}

func main() {
	// A process started by a thread is killed when that thread ends; the main
	// one does not.
	runtime.LockOSThread()
	var o options
	flag.StringVar(&o.root, "root", ".", "the repository")
	flag.StringVar(&o.perl, "perl", "perl", "the Perl to call from")
	flag.StringVar(&o.python, "python", "", "the Python to call from (default build/venv's)")
	flag.BoolVar(&o.quick, "quick", false, "finish within a minute: fewer groups, in few short rounds; the README is left as it is")
	flag.IntVar(&o.rounds, "rounds", 0, "so many rounds, `N`, instead of the usual number")
	flag.BoolVar(&o.plan, "plan", false, "measure nothing; print what would be measured, and how long it would take")
	flag.BoolVar(&o.render, "render", false, "measure nothing; write the README's figures, the pictures and the report from latest.json")
	flag.BoolVar(&o.check, "check", false, "measure nothing; fail when -render would change anything")
	flag.StringVar(&o.only, "only", "", "measure only groups, rows and measures whose name matches this `regexp`; the result is printed, and kept only in -out")
	flag.StringVar(&o.out, "out", "", "the `folder` of result, pictures and report (default benchmarks/results; with -quick build/benchmarks/results; with -only none)")
	flag.Parse()
	if o.python == "" {
		o.python = filepath.Join(o.root, "build/venv/bin/python")
	}
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

func (o options) run() error {
	if o.check || o.render {
		return o.reportAgain()
	}
	planned, err := o.schedule("")
	if err != nil {
		return err
	}
	if o.plan {
		return planned.print(os.Stdout)
	}
	r, err := o.measureAll()
	if err != nil {
		return err
	}
	if err := report.Print(os.Stdout, r); err != nil {
		return err
	}
	return errors.Join(o.keep(r), failures(r))
}

// reportAgain writes or checks what is made of the last full run.
func (o options) reportAgain() error {
	r, err := result.Read(filepath.Join(o.results(), latestName))
	if err != nil {
		return err
	}
	inFolder, inReadme := report.Write, report.UpdateReadme
	if o.check {
		inFolder, inReadme = report.Check, report.CheckReadme
	}
	err = inFolder(o.results(), r)
	if o.ofReadme() {
		err = errors.Join(err, inReadme(o.readme(), r))
	}
	return err
}

// ofReadme reports whether the README's figures are those of this run.
func (o options) ofReadme() bool { return !o.quick && o.only == "" && o.out == "" }

const latestName = "latest.json"

func (o options) readme() string { return filepath.Join(o.root, "README.md") }

// results is where a run leaves its result; "" for nowhere.
func (o options) results() string {
	switch {
	case o.out != "":
		return o.out
	case o.only != "":
		return ""
	case o.quick:
		return filepath.Join(o.root, "build/benchmarks/results")
	}
	return filepath.Join(o.root, "benchmarks/results")
}

// keep writes the result and what is made of it. That of a full run is also kept
// under its date and machine, and the README's figures are its own. Of a part there is
// the result alone.
func (o options) keep(r *result.Result) error {
	folder := o.results()
	if folder == "" {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	names := []string{latestName}
	if !o.quick && o.only == "" {
		names = append(names, r.Date.Format(time.DateOnly)+"-"+r.Machine.Slug()+".json")
	}
	for _, name := range names {
		path := filepath.Join(folder, name)
		if err := r.Write(path); err != nil {
			return err
		}
		fmt.Println("wrote", path)
	}
	if o.only != "" {
		return nil // of a part there is no report
	}
	if err := report.Write(folder, r); err != nil {
		return err
	}
	fmt.Println("wrote", filepath.Join(folder, report.PageName))
	if !o.ofReadme() {
		return nil
	}
	return report.UpdateReadme(o.readme(), r)
}

// failures is an error where something of a result has failed. All else is there.
func failures(r *result.Result) error {
	failed := 0
	for _, row := range r.Rows {
		if row.Failed != "" {
			failed++
		}
	}
	for _, left := range r.LeftOut {
		if left.Failed {
			failed++
		}
	}
	if failed == 0 {
		return nil
	}
	return fmt.Errorf("%d rows or parts failed; the report says why", failed)
}
