package main

import (
	"errors"
	"os"
	"runtime"
	"time"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// idleSeconds is how long idle connections are watched.
const idleSeconds = 20

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
	if o.rounds > 0 {
		p.rounds = o.rounds
	}
	return only.schedule(p, o.groups(), o.parts(folder)), nil
}

// parts are those that look at nothing the rows have done.
func (t tools) parts(folder string) []part {
	return []part{
		{"server_allocations", true, 2 * time.Second, func() ([]result.Measure, error) { return goAllocations(folder) }},
		{"idle", false, (idleSeconds + 6) * time.Second, func() ([]result.Measure, error) { return t.measureIdle(folder, idleSeconds*time.Second) }},
		{"idle_memory", false, idleMemoryLength + 4*time.Second, func() ([]result.Measure, error) { return t.measureIdleMemory(folder) }},
		{"handoffs", false, 25 * time.Second, func() ([]result.Measure, error) { return t.measureHandoffs(folder) }},
		{"residents", false, 70 * time.Second, func() ([]result.Measure, error) { return t.measureResidents(folder) }},
		{"linked", true, 2 * time.Second, t.measureLinked},
		{"go_itself", false, 6 * time.Second, measureItself},
	}
}

func (o options) measureAll() (*result.Result, error) {
	folder, err := os.MkdirTemp("", "nearcall-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	s, err := o.schedule(folder)
	if err != nil {
		return nil, err
	}
	r := &result.Result{
		Schema: result.Schema, Date: time.Now().UTC().Truncate(time.Second), Quick: o.quick,
		Machine: result.ThisMachine(), Versions: result.ThisSoftware(o.root, o.perl, o.python),
		Method: result.Method{
			Rounds: s.pace.rounds, RoundMS: int(s.pace.length.Milliseconds()), WarmUpMS: int(s.pace.warmUp.Milliseconds()),
			Order:   "rows in turns, every second round backwards; some groups have shorter or longer rounds",
			Pinning: "none, but for floor-c-spin and one-cpu", GoMaxProcs: runtime.GOMAXPROCS(0), SpinSettings: "automatic on both sides",
		},
	}
	watch := newProgress(os.Stderr, s.length())
	defer watch.end()
	rows := o.measureRows(r, s, folder, watch)
	for _, row := range rows {
		r.Rows = append(r.Rows, row.reduced())
	}
	r.Peers = o.describePeers(rows, r.Versions.Nearcall)
	r.Comparisons = compareAll(comparisons(), rows)
	measureParts(r, append(s.parts, o.ofRows(rows)...), watch)
	return r, nil
}

// ofRows are the parts that look at what was measured with rows.
func (o options) ofRows(rows []measuredRow) []part {
	return []part{
		{name: "libnearcall_allocations", measure: func() ([]result.Measure, error) { return libraryAllocations(rows) }},
		{name: "perf_counters", measure: func() ([]result.Measure, error) { return perfCounters(rows) }},
	}
}

// measureRows measures all groups; those that this machine cannot are noted in the
// result, and so is what failed: the run goes on without it.
func (t tools) measureRows(r *result.Result, s schedule, folder string, watch *progress) []measuredRow {
	var rows []measuredRow
	for _, group := range s.groups {
		watch.begin(group.name, s.pace.lengthOf(group))
		r.LeftOut = append(r.LeftOut, group.leftOut...)
		measured, err := t.runGroup(group, folder, s.pace, watch)
		if errors.Is(err, errNotHere) {
			watch.add(s.pace.lengthOf(group))
			r.LeftOut = append(r.LeftOut, result.LeftOut{Group: group.name, Why: err.Error()})
			continue
		}
		if err != nil {
			watch.say("%s: %v", group.name, err)
		}
		for i := range measured {
			if err != nil && len(measured[i].rounds) == 0 && measured[i].failed == "" {
				measured[i].fail(err)
			}
		}
		rows = append(rows, measured...)
	}
	return rows
}

// measureParts measures what is not a time. A part that fails is noted, and the run
// goes on without it.
func measureParts(r *result.Result, parts []part, watch *progress) {
	for _, part := range parts {
		watch.begin(part.name, part.length)
		measures, err := part.measure()
		watch.add(part.length)
		if err != nil {
			watch.say("%s: %v", part.name, err)
			r.LeftOut = append(r.LeftOut, result.LeftOut{Group: part.name, Why: err.Error(), Failed: !errors.Is(err, errNotHere)})
			continue
		}
		r.Measures = append(r.Measures, measures...)
	}
}
