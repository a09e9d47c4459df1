package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/benchmarks/sample"
)

const (
	// A server's memory jumps with its heap: of so many servers the median counts.
	idleServers = 3
	// What it takes to fill a server, and to see that it is still.
	idleConnectionStart = 150 * time.Microsecond
	idleServerStart     = 2 * settlePeriod
)

// idleEngines are a server with each engine.
var idleEngines = []struct {
	name   string
	server serverPlan
}{{report.IdleGoroutines, testServer}, {report.IdleEventLoop, eventServer}}

// connectIdle opens connections each of which calls once; they are a process's own,
// whose descriptors are enough for them.
func (t tools) connectIdle(address string, count int) (*process.Process, error) {
	return process.Start(t.built("idlecaller"), strings.TrimPrefix(address, "unix:"), strconv.Itoa(count))
}

// measureIdleEngines looks at the memory that idle connections take with each engine.
func (t tools) measureIdleEngines(ctx context.Context, folder string) ([]result.Measure, error) {
	if err := allowDescriptors(uint64(slices.Max(report.IdleCounts)) + descriptorsSpare); err != nil {
		return nil, err
	}
	var measures []result.Measure
	for _, engine := range idleEngines {
		for _, count := range report.IdleCounts {
			var empty, full []float64
			for n := range idleServers {
				without, with, err := t.residentIdle(ctx, filepath.Join(folder, fmt.Sprintf("%s-%d-%d.sock", engine.name, count, n)), engine.server, count)
				if err != nil {
					return nil, fmt.Errorf("%d connections, %s: %w", count, engine.name, err)
				}
				empty, full = append(empty, without), append(full, with)
			}
			measures = append(measures,
				result.Measure{Name: report.IdleResident(engine.name, count), Value: sample.Median(full), Unit: "bytes"},
				result.Measure{Name: report.IdleEmpty(engine.name, count), Value: sample.Median(empty), Unit: "bytes"})
		}
	}
	return measures, nil
}

// residentIdle returns what a server holds that has one connection, and then that many
// more.
func (t tools) residentIdle(ctx context.Context, path string, of serverPlan, count int) (empty, full float64, err error) {
	server, err := process.Start(t.command(of, path)...)
	if err != nil {
		return 0, 0, err
	}
	defer server.Stop()
	var held [2]float64
	for i, more := range []int{1, count} {
		idle, err := t.connectIdle(path, more)
		if err != nil {
			return 0, 0, err
		}
		defer idle.Stop()
		if held[i], err = residentSettled(ctx, server); err != nil {
			return 0, 0, err
		}
	}
	return held[0], held[1], nil
}

func residentSettled(ctx context.Context, p *process.Process) (float64, error) {
	if err := settle(ctx, []*process.Process{p}); err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	resident, err := residentBytes(p.PID())
	return float64(resident), err
}

// idleEnginesLength is about how long measureIdleEngines takes.
func idleEnginesLength() time.Duration {
	connections := time.Duration(slices.Max(report.IdleCounts)) * idleConnectionStart * 11 / 10
	return time.Duration(len(idleEngines)*idleServers) * (connections + time.Duration(len(report.IdleCounts))*idleServerStart)
}
