//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A call that took longer than that had not gone where it was answered at once.
const astray = 300 * time.Millisecond

var errUntrue = errors.New("what callers were told is not what the hosts have executed")

// A call is one line of the callers.
type call struct {
	number   int64
	from, to time.Time
	took     time.Duration
	result   string // the host that has taken the order, or CODE/outcome
}

// A period is what callers saw between two events.
type period struct {
	event
	calls   int
	hosts   map[string]int // orders taken, by host
	failed  map[string]int // by code and outcome
	times   []time.Duration
	gap     time.Duration // the longest time without an order that was taken
	moved   time.Duration // how long after the event the last call began that went astray
	lastEnd time.Time
}

// report prints what the callers saw in each period, and what the hosts have executed. It fails if
// a caller was not told the truth.
func (s *scene) report(begun time.Time, events []event) error {
	calls, err := readCalls(s.file("calls"))
	if err != nil {
		return err
	}
	executed := make(map[int64]int)
	for _, name := range serving {
		if err := count(s.file(name+".orders"), executed); err != nil {
			return err
		}
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nsince\tevent\tcalls\tby b\tby c\tp50 ms\tp99 ms\tgap ms\tmoved ms\tfailed")
	for _, p := range periods(events, calls) {
		p.print(table, begun)
	}
	table.Flush()
	twice, wrong := judge(calls, executed)
	fmt.Printf("\n%d orders; executed twice: %d; outcomes that are not true: %d\n", len(calls), twice, wrong)
	if twice+wrong > 0 {
		return errUntrue
	}
	return nil
}

func readCalls(path string) (calls []call, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var c call
		var begun, took float64
		if _, err := fmt.Sscan(lines.Text(), &c.number, &begun, &took, &c.result); err != nil {
			return nil, fmt.Errorf("a caller said %q: %w", lines.Text(), err)
		}
		c.from, c.took = time.UnixMicro(int64(begun*1e6)), time.Duration(took*float64(time.Second))
		c.to = c.from.Add(c.took)
		calls = append(calls, c)
	}
	slices.SortFunc(calls, func(a, b call) int { return a.to.Compare(b.to) })
	return calls, lines.Err()
}

// count adds the orders that a host has taken.
func count(path string, executed map[int64]int) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var number int64
		if _, err := fmt.Sscan(lines.Text(), &number); err != nil {
			return err
		}
		executed[number]++
	}
	return lines.Err()
}

// periods sorts calls by when they ended: what an event has broken ends after it.
func periods(events []event, calls []call) (all []*period) {
	for _, e := range events[:len(events)-1] {
		all = append(all, &period{event: e, hosts: make(map[string]int), failed: make(map[string]int), lastEnd: e.from})
	}
	i := 0
	for _, c := range calls {
		for i+1 < len(all) && !c.to.Before(all[i+1].from) {
			i++
		}
		all[i].add(c)
	}
	return all
}

func (p *period) add(c call) {
	p.calls++
	p.times = append(p.times, c.took)
	failed := strings.Contains(c.result, "/")
	if failed {
		p.failed[c.result]++
	} else {
		p.hosts[c.result]++
		p.gap = max(p.gap, c.to.Sub(p.lastEnd))
		p.lastEnd = c.to
	}
	if failed || c.took > astray {
		p.moved = max(p.moved, c.from.Sub(p.from))
	}
}

func (p *period) print(table *tabwriter.Writer, begun time.Time) {
	slices.Sort(p.times)
	var failed []string
	for what, n := range p.failed {
		failed = append(failed, fmt.Sprintf("%d %s", n, what))
	}
	slices.Sort(failed)
	fmt.Fprintf(table, "%.1f s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", p.from.Sub(begun).Seconds(), p.text, p.calls, p.hosts["b"], p.hosts["c"],
		milliseconds(quantile(p.times, 0.5)), milliseconds(quantile(p.times, 0.99)), milliseconds(p.gap), milliseconds(p.moved), strings.Join(failed, ", "))
}

func quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(float64(len(sorted)-1)*share)]
}

func milliseconds(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000)
}

// judge holds what callers were told against what was executed.
func judge(calls []call, executed map[int64]int) (twice, wrong int) {
	for _, c := range calls {
		n := executed[c.number]
		delete(executed, c.number)
		if n > 1 {
			twice++
		}
		_, outcome, failed := strings.Cut(c.result, "/")
		switch {
		case !failed && n != 1, outcome == "not-executed" && n != 0, strings.HasPrefix(outcome, "executed") && n != 1:
			wrong++
		}
	}
	// Orders that nobody has made.
	return twice, wrong + len(executed)
}
