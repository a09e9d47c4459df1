// Command benchmarks measures whole calls between processes and says which goals
// were met: see README.md. `make bench` and `make bench-quick` start it through
// the script run, which builds what it runs.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
)

type options struct {
	tools
	quick        bool
	updateReadme bool
	check        bool
}

func main() {
	// A process started by a thread is killed when that thread ends; the main
	// one does not.
	runtime.LockOSThread()
	var o options
	flag.StringVar(&o.root, "root", ".", "the repository")
	flag.StringVar(&o.perl, "perl", "perl", "the Perl to call from")
	flag.StringVar(&o.python, "python", "", "the Python to call from (default build/venv's)")
	flag.BoolVar(&o.quick, "quick", false, "finish within a minute; the result is kept as latest.json only")
	flag.BoolVar(&o.updateReadme, "update-readme", false, "measure nothing; write the README's figures from latest.json")
	flag.BoolVar(&o.check, "check", false, "measure nothing; fail when the README's figures are not those of latest.json")
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
	latest := filepath.Join(o.root, "benchmarks/results/latest.json")
	readme := filepath.Join(o.root, "README.md")
	if o.check || o.updateReadme {
		r, err := result.Read(latest)
		if err != nil {
			return err
		}
		if o.check {
			return report.CheckReadme(readme, r)
		}
		return report.UpdateReadme(readme, r)
	}
	r, err := o.measureAll()
	if err != nil {
		return err
	}
	if err := report.Print(os.Stdout, r); err != nil {
		return err
	}
	if err := o.keep(r, latest); err != nil {
		return err
	}
	return report.UpdateReadme(readme, r)
}

// keep writes the result; one of a full run also under its date and machine.
func (o options) keep(r *result.Result, latest string) error {
	paths := []string{latest}
	if !o.quick {
		name := r.Date.Format(time.DateOnly) + "-" + r.Machine.Slug() + ".json"
		paths = append(paths, filepath.Join(filepath.Dir(latest), name))
	}
	if err := os.MkdirAll(filepath.Dir(latest), 0o755); err != nil {
		return err
	}
	for _, path := range paths {
		if err := r.Write(path); err != nil {
			return err
		}
		fmt.Println("wrote", path)
	}
	return nil
}

func (o options) measureAll() (*result.Result, error) {
	p := fullPace
	if o.quick {
		p = quickPace
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
			Order:   "rows in turns, every second round backwards",
			Pinning: "none", GoMaxProcs: runtime.GOMAXPROCS(0), SpinSettings: "none: sockets only",
		},
	}
	rows, err := o.measureRows(folder, p)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		r.Rows = append(r.Rows, row.reduced())
	}
	for _, plan := range ratios() {
		ratio, err := compared(plan, rows)
		if err != nil {
			return nil, err
		}
		r.Ratios = append(r.Ratios, ratio)
	}
	r.Measures, err = o.measureRest(folder, p, rows)
	return r, err
}

func (o options) measureRows(folder string, p pace) ([]measuredRow, error) {
	servers, err := o.startServers(folder)
	for _, server := range servers {
		defer server.stop()
	}
	if err != nil {
		return nil, err
	}
	var rows []measuredRow
	for _, group := range o.groups() {
		measured, err := o.runGroup(group, servers, folder, p)
		if err != nil {
			return nil, err
		}
		rows = append(rows, measured...)
	}
	return rows, nil
}

// measureRest measures what is not a time.
func (o options) measureRest(folder string, p pace, rows []measuredRow) ([]result.Measure, error) {
	inC, err := libraryAllocations(rows)
	if err != nil {
		return nil, err
	}
	inGo, err := goAllocations(folder)
	if err != nil {
		return nil, err
	}
	idle, err := o.measureIdle(folder, time.Duration(p.idleSeconds)*time.Second)
	if err != nil {
		return nil, err
	}
	linked, err := o.measureLinked()
	return slices.Concat(inC, inGo, idle, linked), err
}
