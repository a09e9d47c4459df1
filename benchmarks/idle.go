package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/nearcall/nearcall/benchmarks/frames"
	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/benchmarks/result"
)

const (
	idleConnections = 10_000
	// What a server may hold, and how many descriptors both sides need beside
	// their connections.
	idleBytesMax     = 200 << 20
	descriptorsSpare = 256
	// A server that has nothing to do is expected to be still after this.
	settleTimeout = 20 * time.Second
	settlePeriod  = 500 * time.Millisecond
)

// measureIdle opens connections with a full hello to a fresh server, says
// nothing more, and looks at what the server uses.
func (t tools) measureIdle(ctx context.Context, folder string, length time.Duration) ([]result.Measure, error) {
	if err := allowDescriptors(idleConnections + descriptorsSpare); err != nil {
		return nil, err
	}
	path := filepath.Join(folder, "idle.sock")
	server, err := process.Start(t.command(testServer, path)...)
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	empty, err := residentBytes(server.PID())
	if err != nil {
		return nil, err
	}
	for n := range idleConnections {
		connection, err := frames.Connect(path)
		if err != nil {
			return nil, fmt.Errorf("connection %d of %d: %w", n+1, idleConnections, err)
		}
		defer connection.Close()
	}
	used, err := useWhileIdle(ctx, []*process.Process{server}, length)
	if err != nil {
		return nil, err
	}
	resident, err := residentBytes(server.PID())
	if err != nil {
		return nil, err
	}
	percent := rounded(100*used[0].cpu.Seconds()/length.Seconds(), 1)
	return []result.Measure{
		{Name: "idle_connections", Value: idleConnections, Unit: "connections"},
		{Name: "idle_server_resident", Value: float64(resident), Unit: "bytes", Goal: result.AtMost(idleBytesMax).Judged(float64(resident))},
		{Name: "idle_server_resident_without_connections", Value: float64(empty), Unit: "bytes"},
		{Name: "idle_server_cpu", Value: percent, Unit: "percent of one CPU", Goal: result.AtMost(0).Judged(percent)},
		{Name: "idle_server_cpu_ticks", Value: float64(used[0].ticks), Unit: fmt.Sprintf("ticks in %.0f s", length.Seconds())},
	}, nil
}

// useWhileIdle returns what each process uses while nobody asks anything of it.
func useWhileIdle(ctx context.Context, processes []*process.Process, length time.Duration) ([]use, error) {
	if err := settle(ctx, processes); err != nil {
		return nil, err
	}
	before, err := useOf(processes)
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(length):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	after, err := useOf(processes)
	if err != nil {
		return nil, err
	}
	for i := range after {
		after[i] = after[i].minus(before[i])
	}
	return after, nil
}

// settle waits until processes have done what was left to do.
func settle(ctx context.Context, processes []*process.Process) error {
	deadline := time.Now().Add(settleTimeout)
	before, err := useOf(processes)
	for err == nil && ctx.Err() == nil && time.Now().Before(deadline) {
		time.Sleep(settlePeriod)
		var now []use
		now, err = useOf(processes)
		if slices.EqualFunc(before, now, func(a, b use) bool { return a.ticks == b.ticks }) {
			return err
		}
		before = now
	}
	return err // not still: the measurement will show it
}

// use is CPU time, in the kernel's two measures.
type use struct {
	cpu   time.Duration
	ticks int64
}

func (u use) plus(v use) use  { return use{u.cpu + v.cpu, u.ticks + v.ticks} }
func (u use) minus(v use) use { return use{u.cpu - v.cpu, u.ticks - v.ticks} }

func useOf(processes []*process.Process) ([]use, error) {
	uses := make([]use, len(processes))
	for i, p := range processes {
		var err error
		if uses[i].cpu, err = processCPU(p.PID()); err != nil {
			return nil, err
		}
		if uses[i].ticks, _, err = cpuTicks(p.PID()); err != nil {
			return nil, err
		}
	}
	return uses, nil
}
