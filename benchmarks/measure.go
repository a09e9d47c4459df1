package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/internal/machine"
)

// schedule returns what the options choose. Parts put their files into folder.
func (o options) schedule(folder string) (schedule, error) {
	only, err := newFilter(o.only)
	if err != nil {
		return schedule{}, err
	}
	p := fullPace
	if o.quick {
		p = quickPace
	}
	p.asked = o.rounds
	s := only.schedule(p, o.groups(), o.parts(folder))
	if len(s.groups)+len(s.parts) == 0 {
		return schedule{}, fmt.Errorf("-only %q matches no group, row or part that is measured; -plan shows groups and parts", o.only)
	}
	return s, nil
}

// parts are all that there are. They put their files into folder.
func (t tools) parts(folder string) []part {
	in := func(measure func(context.Context, string) ([]result.Measure, error)) func(context.Context, []measuredRow) ([]result.Measure, error) {
		return func(ctx context.Context, _ []measuredRow) ([]result.Measure, error) { return measure(ctx, folder) }
	}
	return []part{
		{"server_allocations", true, 2 * time.Second, in(goAllocations)},
		{"idle", false, idleLength + 6*time.Second, in(t.measureIdle)},
		{"idle_memory", false, idleMemoryLength + 4*time.Second, in(t.measureIdleMemory)},
		{"idle_engines", false, idleEnginesLength(), in(t.measureIdleEngines)},
		{"busy_workers", false, busyLength(), in(t.measureBusyWorkers)},
		{"handoffs", false, 30 * time.Second, in(t.measureHandoffs)},
		{"residents", false, wayTurns * 65 * time.Second, in(t.measureResidents)},
		{"linked", true, 2 * time.Second, in(t.measureLinked)},
		{"libnearcall_allocations", true, 0, libraryAllocations},
	}
}

// A measuring is a run under way.
type measuring struct {
	options
	planned schedule
	partly  *partial
	folder  string // of sockets and whatever else is needed until the end
	watch   *progress
	rows    []measuredRow
	result  *result.Result
}

// measureAll measures what the options choose. When the context ends before, what was
// measured is in the partial result, and the context's cause is returned.
func (o options) measureAll(ctx context.Context, partly *partial) (*result.Result, error) {
	folder, err := os.MkdirTemp("", "nearcall-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	s, err := o.schedule(folder)
	if err != nil {
		return nil, err
	}
	return o.measure(ctx, s, partly, folder)
}

// measure measures what is planned.
func (o options) measure(ctx context.Context, s schedule, partly *partial, folder string) (*result.Result, error) {
	m := &measuring{options: o, planned: s, partly: partly, folder: folder}
	var err error
	m.result = &result.Result{
		Schema: result.Schema, Date: time.Now().UTC().Truncate(time.Second), Quick: o.quick,
		Machine: result.ThisMachine(), Versions: result.ThisSoftware(o.root, o.perl, o.python),
		Method: result.Method{
			Rounds: cmp.Or(o.rounds, s.pace.rounds), RoundMS: int(s.pace.length.Milliseconds()), WarmUpMS: int(s.pace.warmUp.Milliseconds()),
			Order:   "rows in turns, every second round backwards; some groups have shorter or longer rounds",
			Pinning: "none, but where a row says so", GoMaxProcs: runtime.GOMAXPROCS(0), SpinSettings: "automatic on both sides",
		},
	}
	if err := m.unsuitable(m.result); err != nil {
		return nil, err
	}
	if m.result.LoadBefore, err = machine.PresentLoad(); err != nil {
		return nil, err
	}
	m.watch = newProgress(os.Stderr, s.length())
	defer m.watch.end()
	m.measureRows(ctx)
	if ctx.Err() == nil {
		peers, untold := o.describePeers(m.rows, m.result.Versions.Nearcall)
		m.result.Peers, m.result.LeftOut = peers, append(m.result.LeftOut, untold...)
	}
	m.measureParts(ctx)
	if m.result.LoadAfter, err = machine.PresentLoad(); err != nil {
		m.leaveOut("load_after", err)
	}
	return m.result, context.Cause(ctx)
}

// measureRows measures all groups; those that this machine cannot are noted in the
// result, and so is what failed: the run goes on without it.
func (m *measuring) measureRows(ctx context.Context) {
	for _, group := range m.planned.groups {
		if ctx.Err() != nil {
			return
		}
		m.watch.begin(group.name, m.planned.pace.lengthOf(group))
		m.result.LeftOut = append(m.result.LeftOut, group.leftOut...)
		measured, err := m.runGroup(ctx, group, m.folder, m.planned.pace, m.watch)
		m.watch.finish()
		if err != nil {
			m.leaveOut(group.name, err)
		}
		// What has no rounds was not begun: the group failed before, or the run has ended.
		m.rows = append(m.rows, slices.DeleteFunc(measured, func(row measuredRow) bool { return len(row.rounds) == 0 && row.failed == "" })...)
		m.reduce()
		m.keepPartial()
	}
}

// leaveOut notes that something of a group or a part, or all of it, is not there.
func (m *measuring) leaveOut(name string, err error) {
	m.watch.say("%s: %v", name, err)
	m.result.LeftOut = append(m.result.LeftOut, result.LeftOut{Group: name, Why: err.Error(), Failed: !errors.Is(err, errNotHere)})
}

// reduce makes rows and comparisons of what was measured so far.
func (m *measuring) reduce() {
	m.result.Rows = nil
	for _, row := range m.rows {
		m.result.Rows = append(m.result.Rows, row.reduced())
	}
	m.result.Comparisons = compareAll(comparisons(), m.rows)
	m.result.FailInfinite()
}

// measureParts measures what is not a time. A part that fails is noted, and the run
// goes on without it.
func (m *measuring) measureParts(ctx context.Context) {
	for _, part := range m.planned.parts {
		if ctx.Err() != nil {
			return
		}
		m.watch.begin(part.name, part.length)
		measures, err := part.measure(ctx, m.rows)
		m.watch.finish()
		if err != nil && ctx.Err() != nil {
			return // it was not let finish
		}
		if err != nil {
			m.leaveOut(part.name, err)
			measures = nil
		}
		for _, measure := range measures {
			measure.Part = part.name
			m.result.Measures = append(m.result.Measures, measure)
		}
		m.result.FailInfinite()
		m.keepPartial()
	}
}
