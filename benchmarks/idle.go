package main

import (
	"fmt"
	"time"

	"github.com/nearcall/nearcall/benchmarks/frames"
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
func (t tools) measureIdle(folder string, length time.Duration) ([]result.Measure, error) {
	if err := allowDescriptors(idleConnections + descriptorsSpare); err != nil {
		return nil, err
	}
	at := address(folder, testServer) + ".idle"
	server, err := startProcess(t.built("testserver"), "-address", at)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	empty, err := residentBytes(server.pid())
	if err != nil {
		return nil, err
	}
	for n := range idleConnections {
		connection, err := frames.Connect(at[len("unix:"):])
		if err != nil {
			return nil, fmt.Errorf("connection %d of %d: %w", n+1, idleConnections, err)
		}
		defer connection.Close()
	}
	if err := settle(server.pid()); err != nil {
		return nil, err
	}
	used, ticks, err := usedWhileIdle(server.pid(), length)
	if err != nil {
		return nil, err
	}
	resident, err := residentBytes(server.pid())
	if err != nil {
		return nil, err
	}
	percent := rounded(100*used.Seconds()/length.Seconds(), 1)
	return []result.Measure{
		{Name: "idle_connections", Value: idleConnections, Unit: "connections"},
		{Name: "idle_server_resident", Value: float64(resident), Unit: "bytes", Goal: result.AtMost(idleBytesMax).Judged(float64(resident))},
		{Name: "idle_server_resident_without_connections", Value: float64(empty), Unit: "bytes"},
		{Name: "idle_server_cpu", Value: percent, Unit: "percent of one CPU", Goal: result.AtMost(0).Judged(percent)},
		{Name: "idle_server_cpu_ticks", Value: float64(ticks), Unit: fmt.Sprintf("ticks in %.0f s", length.Seconds())},
	}, nil
}

// settle waits until the server has done what opening connections left it to do.
func settle(pid int) error {
	deadline := time.Now().Add(settleTimeout)
	before, err := cpuTicks(pid)
	for err == nil && time.Now().Before(deadline) {
		time.Sleep(settlePeriod)
		var now int64
		now, err = cpuTicks(pid)
		if now == before {
			return err
		}
		before = now
	}
	return err // not still: the measurement will show it
}

func usedWhileIdle(pid int, length time.Duration) (cpu time.Duration, ticks int64, err error) {
	cpuBefore, err := processCPU(pid)
	if err != nil {
		return 0, 0, err
	}
	ticksBefore, err := cpuTicks(pid)
	if err != nil {
		return 0, 0, err
	}
	time.Sleep(length)
	cpuAfter, err := processCPU(pid)
	if err != nil {
		return 0, 0, err
	}
	ticksAfter, err := cpuTicks(pid)
	return cpuAfter - cpuBefore, ticksAfter - ticksBefore, err
}
