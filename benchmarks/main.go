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
	quick        bool
	updateReadme bool
	check        bool
	only         string
	out          string
}

func main() {
	// A process started by a thread is killed when that thread ends; the main
	// one does not.
	runtime.LockOSThread()
	var o options
	flag.StringVar(&o.root, "root", ".", "the repository")
	flag.StringVar(&o.perl, "perl", "perl", "the Perl to call from")
	flag.StringVar(&o.python, "python", "", "the Python to call from (default build/venv's)")
	flag.BoolVar(&o.quick, "quick", false, "fewer and shorter rounds, about seven minutes in all; the result is kept as latest.json only")
	flag.BoolVar(&o.updateReadme, "update-readme", false, "measure nothing; write the README's figures from latest.json")
	flag.BoolVar(&o.check, "check", false, "measure nothing; fail when the README's figures are not those of latest.json")
	flag.StringVar(&o.only, "only", "", "measure only groups, rows and measures whose name matches this `regexp`; the result is printed, and kept only in -out")
	flag.StringVar(&o.out, "out", "", "the `folder` that result and plot are written to (default benchmarks/results; with -only none)")
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
	results := filepath.Join(o.root, "benchmarks/results")
	latest := filepath.Join(results, latestName)
	readme := filepath.Join(o.root, "README.md")
	if o.check || o.updateReadme {
		r, err := result.Read(latest)
		if err != nil {
			return err
		}
		if o.check {
			return errors.Join(report.CheckReadme(readme, r), report.CheckPlot(results, r))
		}
		return errors.Join(report.UpdateReadme(readme, r), report.WritePlot(results, r))
	}
	r, err := o.measureAll()
	if err != nil {
		return err
	}
	if err := report.Print(os.Stdout, r); err != nil {
		return err
	}
	switch {
	case o.out != "":
		return o.keep(r, o.out)
	case o.only != "":
		return nil
	}
	if err := o.keep(r, results); err != nil {
		return err
	}
	return report.UpdateReadme(readme, r)
}

const latestName = "latest.json"

// keep writes the result and its plot; the result of a full run also under its date
// and machine.
func (o options) keep(r *result.Result, folder string) error {
	names := []string{latestName}
	if !o.quick {
		names = append(names, r.Date.Format(time.DateOnly)+"-"+r.Machine.Slug()+".json")
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(folder, name)
		if err := r.Write(path); err != nil {
			return err
		}
		fmt.Println("wrote", path)
	}
	return report.WritePlot(folder, r)
}

func (o options) measureAll() (*result.Result, error) {
	p := fullPace
	if o.quick {
		p = quickPace
	}
	only, err := newFilter(o.only)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "nearcall-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	r := &result.Result{
		Schema: result.Schema, Date: time.Now().UTC().Truncate(time.Second), Quick: o.quick,
		Machine: result.ThisMachine(), Versions: result.ThisSoftware(o.root, o.perl, o.python),
		Method: result.Method{
			Rounds: p.rounds, RoundMS: int(p.length.Milliseconds()), WarmUpMS: int(p.warmUp.Milliseconds()),
			Order:   "rows in turns, every second round backwards; some groups have shorter or longer rounds",
			Pinning: "none, but for floor-c-spin and one-cpu", GoMaxProcs: runtime.GOMAXPROCS(0), SpinSettings: "automatic on both sides",
		},
	}
	rows, err := o.measureRows(r, only, folder, p)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		r.Rows = append(r.Rows, row.reduced())
	}
	if r.Comparisons, err = only.compare(comparisons(), rows, r.LeftOut); err != nil {
		return nil, err
	}
	r.Measures, err = o.measureRest(only, folder, p, rows)
	return r, err
}

// measureRows measures all groups; those that this machine cannot are noted in the
// result.
func (o options) measureRows(r *result.Result, only filter, folder string, p pace) ([]measuredRow, error) {
	var rows []measuredRow
	for _, group := range only.groups(o.groups()) {
		measured, err := o.runGroup(group, folder, p)
		if errors.Is(err, errNotHere) {
			r.LeftOut = append(r.LeftOut, result.LeftOut{Group: group.name, Why: err.Error()})
			continue
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, measured...)
	}
	return rows, nil
}

// measureRest measures what is not a time.
func (o options) measureRest(only filter, folder string, p pace, rows []measuredRow) ([]result.Measure, error) {
	var all []result.Measure
	for _, part := range []struct {
		name    string
		measure func() ([]result.Measure, error)
	}{
		{"libnearcall_allocations", func() ([]result.Measure, error) { return libraryAllocations(rows) }},
		{"server_allocations", func() ([]result.Measure, error) { return goAllocations(folder) }},
		{"idle", func() ([]result.Measure, error) {
			return o.measureIdle(folder, time.Duration(p.idleSeconds)*time.Second)
		}},
		{"idle_memory", func() ([]result.Measure, error) { return o.measureIdleMemory(folder) }},
		{"handoffs", func() ([]result.Measure, error) { return o.measureHandoffs(folder) }},
		{"residents", func() ([]result.Measure, error) { return o.measureResidents(folder, p.runsMax) }},
		{"linked", o.measureLinked},
		{"go_itself", measureItself},
	} {
		if !only.wants(part.name) {
			continue
		}
		measures, err := part.measure()
		if err != nil {
			return nil, err
		}
		all = append(all, measures...)
	}
	return all, nil
}
