package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/benchmarks/sample"
)

// idlePace is for few rows, whose servers take longer to fill than their rounds.
var idlePace = pace{rounds: 9, length: 150 * time.Millisecond, warmUp: 100 * time.Millisecond}

const (
	// A server's memory jumps with its heap: of so many servers the median counts.
	idleServers = 3
	// What it takes to fill a server, and to see that it is still.
	idleConnectionStart = 150 * time.Microsecond
	idleServerStart     = 2 * settlePeriod
)

// idleEngines are a server with each engine.
var idleEngines = []struct{ name, program string }{
	{report.IdleGoroutines, "testserver"}, {report.IdleEventLoop, "eventserver"},
}

// idleServerName names a server that has so many idle connections.
func idleServerName(engine string, count int) serverName {
	return serverName(fmt.Sprintf("idle %s %d", engine, count))
}

// besideIdle is one caller, and beside it many connections that have called once.
func (t tools) besideIdle() group {
	var rows []rowPlan
	for _, count := range report.IdleCounts {
		for _, engine := range idleEngines {
			row := plan(report.BesideIdle(engine.name, count), smallBytes, idleServerName(engine.name, count), bySocket, t.c("raw"))
			row.startsIn = time.Duration(count) * idleConnectionStart
			if engine.name == report.IdleEventLoop {
				row = onEventLoop(row)
			}
			rows = append(rows, row)
		}
	}
	return group{name: "beside-idle", rows: rows, onlyFull: &idlePace}
}

// idleServerOf returns what a name of such a server says; ok is false for others.
func idleServerOf(name serverName) (program string, count int, ok bool) {
	for _, engine := range idleEngines {
		for _, count := range report.IdleCounts {
			if name == idleServerName(engine.name, count) {
				return engine.program, count, true
			}
		}
	}
	return "", 0, false
}

func isIdleServer(name serverName) bool {
	_, _, ok := idleServerOf(name)
	return ok
}

// startIdleServer starts such a server and opens its idle connections.
func (s *scene) startIdleServer(name serverName) error {
	_, count, _ := idleServerOf(name)
	if err := allowIdle(count); err != nil {
		return err
	}
	if err := s.startEndpoint(name); err != nil {
		return err
	}
	address := strings.TrimSpace(strings.TrimPrefix(s.servers[name].said, readyWord))
	idle, err := s.connectIdle(address, count)
	if err == nil {
		s.idle = append(s.idle, idle)
	}
	return err
}

// connectIdle opens connections each of which calls once; they are a process's own,
// whose descriptors are enough for them.
func (t tools) connectIdle(address string, count int) (*process, error) {
	return startProcess(t.built("idlecaller"), strings.TrimPrefix(address, "unix:"), strconv.Itoa(count))
}

// allowIdle lets processes have so many connections.
func allowIdle(count int) error { return allowDescriptors(uint64(count) + descriptorsSpare) }

// measureIdleEngines looks at the memory that idle connections take with each engine.
func (t tools) measureIdleEngines(ctx context.Context, folder string) ([]result.Measure, error) {
	if err := allowIdle(slices.Max(report.IdleCounts)); err != nil {
		return nil, err
	}
	var measures []result.Measure
	for _, engine := range idleEngines {
		for _, count := range report.IdleCounts {
			var empty, full []float64
			for n := range idleServers {
				without, with, err := t.residentIdle(ctx, filepath.Join(folder, fmt.Sprintf("%s-%d-%d.sock", engine.name, count, n)), engine.program, count)
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
func (t tools) residentIdle(ctx context.Context, path, program string, count int) (empty, full float64, err error) {
	server, err := startProcess(t.built(program), "-address", "unix:"+path)
	if err != nil {
		return 0, 0, err
	}
	defer server.stop()
	var held [2]float64
	for i, more := range []int{1, count} {
		idle, err := t.connectIdle(path, more)
		if err != nil {
			return 0, 0, err
		}
		defer idle.stop()
		if held[i], err = residentSettled(ctx, server); err != nil {
			return 0, 0, err
		}
	}
	return held[0], held[1], nil
}

func residentSettled(ctx context.Context, p *process) (float64, error) {
	if err := settle(ctx, []*process{p}); err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	resident, err := residentBytes(p.pid())
	return float64(resident), err
}

// idleEnginesLength is about how long measureIdleEngines takes.
func idleEnginesLength() time.Duration {
	connections := time.Duration(slices.Max(report.IdleCounts)) * idleConnectionStart * 11 / 10
	return time.Duration(len(idleEngines)*idleServers) * (connections + time.Duration(len(report.IdleCounts))*idleServerStart)
}
