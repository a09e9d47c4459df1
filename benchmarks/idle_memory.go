package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/benchmarks/result"
)

const (
	idleMemoryClients = 100
	idleMemoryLength  = 10 * time.Second
	// How long each client calls, so that it has been given memory.
	idleMemoryCalls = 100 * time.Millisecond
)

// measureIdleMemory looks at what a server and clients that have called through
// shared memory use when they have nothing more to say.
func (t tools) measureIdleMemory(ctx context.Context, folder string) ([]result.Measure, error) {
	s := &scene{tools: t, folder: folder}
	row := measuredRow{plan: plan("idle", smallBytes, testServer, byMemory, t.c("raw"))}
	row.plan.processes = idleMemoryClients
	defer s.stopServers()
	defer row.stop()
	s.servers = map[serverPlan]*process.Process{}
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
	used, err := useWhileIdle(ctx, append([]*process.Process{s.servers[testServer]}, row.callers...), idleMemoryLength)
	if err != nil {
		return nil, err
	}
	return idleMeasures(used[0], used[1:]), nil
}

func idleMeasures(ofServer use, clients []use) []result.Measure {
	var ofClients use
	for _, client := range clients {
		ofClients = ofClients.plus(client)
	}
	ticks := fmt.Sprintf("ticks in %.0f s", idleMemoryLength.Seconds())
	return []result.Measure{
		{Name: "idle_memory_clients", Value: float64(len(clients)), Unit: "clients"},
		{Name: "idle_memory_server_cpu_ticks", Value: float64(ofServer.ticks), Unit: ticks, Goal: result.AtMost(0).Judged(float64(ofServer.ticks))},
		{Name: "idle_memory_clients_cpu_ticks", Value: float64(ofClients.ticks), Unit: ticks, Goal: result.AtMost(0).Judged(float64(ofClients.ticks))},
		// What is less than a tick.
		{Name: "idle_memory_server_cpu", Value: rounded(ofServer.cpu.Seconds()*1e3, 2), Unit: "ms"},
		{Name: "idle_memory_clients_cpu", Value: rounded(ofClients.cpu.Seconds()*1e3, 2), Unit: "ms, all together"},
	}
}
