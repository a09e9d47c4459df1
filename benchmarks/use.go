package main

import (
	"context"
	"slices"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
)

// A server that has nothing to do is expected to be still after this.
const (
	settleTimeout = 20 * time.Second
	settlePeriod  = 500 * time.Millisecond
)

// use is CPU time, in the kernel's two measures.
type use struct {
	cpu   time.Duration
	ticks int64
}

// useOf returns what processes have used so far, all together.
func useOf(processes []*process.Process) (all use, err error) {
	for _, p := range processes {
		cpu, err := processCPU(p.PID())
		if err != nil {
			return all, err
		}
		ticks, _, err := cpuTicks(p.PID())
		if err != nil {
			return all, err
		}
		all.cpu, all.ticks = all.cpu+cpu, all.ticks+ticks
	}
	return all, nil
}

// useWhileIdle returns what processes, some and others, use while nobody asks anything of them.
func useWhileIdle(ctx context.Context, length time.Duration, of ...[]*process.Process) ([]use, error) {
	if err := settle(ctx, slices.Concat(of...)); err != nil {
		return nil, err
	}
	before, err := usesOf(of)
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(length):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	used, err := usesOf(of)
	for i := range used {
		used[i].cpu -= before[i].cpu
		used[i].ticks -= before[i].ticks
	}
	return used, err
}

func usesOf(all [][]*process.Process) ([]use, error) {
	uses := make([]use, len(all))
	for i, processes := range all {
		var err error
		if uses[i], err = useOf(processes); err != nil {
			return nil, err
		}
	}
	return uses, nil
}

// settle waits until processes have done what was left to do.
func settle(ctx context.Context, processes []*process.Process) error {
	before, err := useOf(processes)
	for deadline := time.Now().Add(settleTimeout); err == nil && time.Now().Before(deadline); {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		time.Sleep(settlePeriod)
		now, failed := useOf(processes)
		if failed != nil || now.ticks == before.ticks {
			return failed
		}
		before = now
	}
	return err // not still: the measurement will show it
}
