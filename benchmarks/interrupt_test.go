package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// planned is a schedule of fake rows and parts.
func planned(groups []group, parts ...part) schedule {
	return schedule{pace: pace{rounds: fakeRounds, length: time.Millisecond, warmUp: time.Millisecond}, groups: groups, parts: parts}
}

// The row that is under way ends, and nothing after it begins.
func TestSignalEndsRunAndKeepsWhatWasMeasured(t *testing.T) {
	t.Setenv(asCaller, "1")
	o := options{tools: tools{root: t.TempDir()}, quick: true}
	ctx, release := untilSignal()
	defer release()
	noticed := filepath.Join(t.TempDir(), "noticed")
	context.AfterFunc(ctx, func() { os.WriteFile(noticed, nil, 0o600) })
	s := planned([]group{
		{name: "done", rows: []rowPlan{fakeRow(t, "before", "")}},
		{name: "under way", rows: []rowPlan{fakeRow(t, "interrupts", interrupts+noticed), fakeRow(t, "after", "")}},
		{name: "never", rows: []rowPlan{fakeRow(t, "never", "")}},
	}, part{name: "no part", measure: func(context.Context, []measuredRow) ([]result.Measure, error) {
		t.Error("a part was measured")
		return nil, nil
	}})
	partly := o.partial()
	_, err := o.measure(ctx, s, partly, t.TempDir())
	if !errors.Is(err, interrupted{syscall.SIGTERM}) || exitCode(err) != 128+int(syscall.SIGTERM) {
		t.Fatalf("ended with %v, exit code %d", err, exitCode(err))
	}
	left, err := result.Read(partly.path)
	check(t, err)
	got := map[string]int{}
	for _, row := range left.Rows {
		got[row.Name] = row.Rounds
	}
	if len(got) != 2 || got["before"] != fakeRounds || got["interrupts"] != 1 || len(left.LeftOut) != 0 {
		t.Errorf("measured were %v, left out %v", got, left.LeftOut)
	}
}

func TestPartThatWasNotLetFinishIsNoFailure(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	o := options{tools: tools{root: t.TempDir()}, quick: true}
	s := planned(nil, part{name: "long", measure: func(ctx context.Context, _ []measuredRow) ([]result.Measure, error) {
		cancel(interrupted{syscall.SIGINT})
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}})
	r, err := o.measure(ctx, s, o.partial(), t.TempDir())
	if exitCode(err) != 130 || len(r.LeftOut) != 0 {
		t.Errorf("ended with %v, left out %v", err, r.LeftOut)
	}
}

// Ctrl-C reaches a whole group of processes: servers and callers are not in this one's.
func TestTerminalsSignalLeavesProcessesAlone(t *testing.T) {
	t.Setenv(asCaller, "1")
	for _, command := range [][]string{{os.Args[0], ""}, {"setsid", os.Args[0], ""}} {
		p, err := process.Start(command...)
		check(t, err)
		defer p.Stop()
		group, err := unix.Getpgid(p.PID())
		if err != nil || group == unix.Getpgrp() {
			t.Errorf("%v is in the group %d of its starter, %v", command[:1], group, err)
		}
	}
}

// A figure that is no number would leave no file at all.
func TestInfiniteFigureFailsItsRowAlone(t *testing.T) {
	t.Setenv(asCaller, "1")
	o := options{tools: tools{root: t.TempDir()}, quick: true}
	s := planned([]group{{name: "fakes", rows: []rowPlan{fakeRow(t, "in no time", "in no time"), fakeRow(t, "lives", "")}}})
	r, err := o.measure(t.Context(), s, o.partial(), t.TempDir())
	check(t, err)
	failed := slices.Collect(func(yield func(string) bool) {
		for _, row := range r.Rows {
			if row.Failed != "" && !yield(row.Name) {
				return
			}
		}
	})
	if !slices.Equal(failed, []string{"in no time"}) {
		t.Errorf("failed are %v", failed)
	}
	if err := r.Write(filepath.Join(t.TempDir(), "latest.json")); err != nil {
		t.Error(err)
	}
}
