package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/nearcall/nearcall/benchmarks/frames"
	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/benchmarks/sample"
)

const (
	idleConnections = 10_000
	idleLength      = 20 * time.Second // how long they are watched
	// What a server may hold, and how many descriptors both sides need beside
	// their connections.
	idleBytesMax     = 200 << 20
	descriptorsSpare = 256
)

// measureIdle opens connections with a full hello to a fresh server, says
// nothing more, and looks at what the server uses.
func (t tools) measureIdle(ctx context.Context, folder string) ([]result.Measure, error) {
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
	all, err := useWhileIdle(ctx, idleLength, []*process.Process{server})
	if err != nil {
		return nil, err
	}
	used := all[0]
	resident, err := residentBytes(server.PID())
	return []result.Measure{
		measured("idle_connections", "connections", idleConnections),
		atMost(idleBytesMax, "idle_server_resident", "bytes", float64(resident)),
		measured("idle_server_resident_without_connections", "bytes", float64(empty)),
		atMost(0, "idle_server_cpu", "percent of one CPU", rounded(100*used.cpu.Seconds()/idleLength.Seconds(), 1)),
		measured("idle_server_cpu_ticks", ticksIn(idleLength), float64(used.ticks)),
	}, err
}

func ticksIn(length time.Duration) string { return fmt.Sprintf("ticks in %.0f s", length.Seconds()) }

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
	return process.Start(append(t.caller("go", "idle"), address, strconv.Itoa(smallBytes), strconv.Itoa(count))...)
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
				held, err := t.residentIdle(ctx, filepath.Join(folder, fmt.Sprintf("%s-%d-%d.sock", engine.name, count, n)), engine.server, count)
				if err != nil {
					return nil, fmt.Errorf("%d connections, %s: %w", count, engine.name, err)
				}
				empty, full = append(empty, held[0]), append(full, held[1])
			}
			measures = append(measures, measured(report.IdleResident(engine.name, count), "bytes", sample.Median(full)),
				measured(report.IdleEmpty(engine.name, count), "bytes", sample.Median(empty)))
		}
	}
	return measures, nil
}

// residentIdle returns what a server holds that has one connection, and then that many
// more.
func (t tools) residentIdle(ctx context.Context, path string, of serverPlan, count int) (held [2]float64, err error) {
	server, err := process.Start(t.command(of, path)...)
	if err != nil {
		return held, err
	}
	defer server.Stop()
	for i, more := range []int{1, count} {
		idle, err := t.connectIdle(server.Said, more)
		if err != nil {
			return held, err
		}
		defer idle.Stop()
		if err := settle(ctx, []*process.Process{server}); err != nil {
			return held, err
		}
		bytes, err := residentBytes(server.PID())
		if err != nil {
			return held, err
		}
		held[i] = float64(bytes)
	}
	return held, nil
}

// idleEnginesLength is about how long measureIdleEngines takes.
func idleEnginesLength() time.Duration {
	connections := time.Duration(slices.Max(report.IdleCounts)) * idleConnectionStart * 11 / 10
	return time.Duration(len(idleEngines)*idleServers) * (connections + time.Duration(len(report.IdleCounts))*idleServerStart)
}

const (
	idleMemoryClients = 100
	idleMemoryLength  = 10 * time.Second
	// How long each client calls, so that it has been given memory.
	idleMemoryCalls = 100 * time.Millisecond
)

// measureIdleMemory looks at what a server and clients that have called through
// shared memory use when they have nothing more to say.
func (t tools) measureIdleMemory(ctx context.Context, folder string) ([]result.Measure, error) {
	s := &scene{tools: t, folder: folder, servers: map[serverPlan]*process.Process{}}
	row := measuredRow{plan: plan("idle", smallBytes, testServer, byMemory, t.caller("c", "raw"))}
	row.plan.processes = idleMemoryClients
	defer s.stopServers()
	defer row.stop()
	if err := s.startServer(row.plan); err != nil {
		return nil, err
	}
	if err := s.startCallers(&row); err != nil {
		return nil, err
	}
	called, err := s.measure(&row, idleMemoryCalls)
	if err == nil {
		err = row.keep(called)
	}
	if err != nil {
		return nil, err
	}
	used, err := useWhileIdle(ctx, idleMemoryLength, []*process.Process{s.servers[testServer]}, row.callers)
	if err != nil {
		return nil, err
	}
	ticks := ticksIn(idleMemoryLength)
	return []result.Measure{
		measured("idle_memory_clients", "clients", idleMemoryClients),
		atMost(0, "idle_memory_server_cpu_ticks", ticks, float64(used[0].ticks)),
		atMost(0, "idle_memory_clients_cpu_ticks", ticks, float64(used[1].ticks)),
		// What is less than a tick.
		measured("idle_memory_server_cpu", "ms", rounded(used[0].cpu.Seconds()*1e3, 2)),
		measured("idle_memory_clients_cpu", "ms, all together", rounded(used[1].cpu.Seconds()*1e3, 2)),
	}, nil
}
