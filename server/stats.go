package server

import (
	"encoding/json"
	"os"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
)

// counters hold what the server has counted since it started.
type counters struct {
	connections atomic.Uint64
	refused     atomic.Uint64
	violations  atomic.Uint64
	memories    atomic.Uint64
	parked      atomic.Int64 // at this moment

	memoriesMissing atomic.Uint64
	asks            atomic.Uint64
	sleeps          sharedmemory.Sleeps

	observed atomic.Uint64 // connections that were opened, which numbers them
}

// Statistics are the counters of a server. The built-in function nearcall.stats returns them
// as JSON, with the names that the tags give. Further fields may be added.
type Statistics struct {
	// ProcessID is that of the server, and UptimeMs the time since New.
	ProcessID int   `json:"process_id"`
	UptimeMs  int64 `json:"uptime_ms"`
	// Connections is the number of open connections.
	Connections int `json:"connections"`
	// InputBytes and OutputBytes are the bytes that are counted at this moment against
	// the limits input_bytes_max and output_bytes_max.
	InputBytes  int64 `json:"input_bytes"`
	OutputBytes int64 `json:"output_bytes"`
	// Parked is the number of connections that wait with an engine at this moment: see
	// WithEngine.
	Parked int64 `json:"parked"`
	// ConnectionsTotal counts the connections that were accepted. RefusedTotal counts those
	// of them that were turned away, and ViolationsTotal those that were closed because
	// their peer broke the protocol or was too slow.
	ConnectionsTotal uint64 `json:"connections_total"`
	RefusedTotal     uint64 `json:"refused_total"`
	ViolationsTotal  uint64 `json:"violations_total"`
	// SharedMemoryTotal counts the connections that were given shared memory.
	SharedMemoryTotal uint64 `json:"shared_memory_total"`
	// SharedMemoryRefusedTotal counts the connections that could not be given any. The log
	// has the reasons.
	SharedMemoryRefusedTotal uint64 `json:"shared_memory_refused_total"`
	// SharedMemorySleeps counts, by cause, how often a connection with shared memory
	// went to sleep instead of looking for a request there. The guide
	// docs/guides/shared-memory.md explains the causes.
	SharedMemorySleeps map[string]uint64 `json:"shared_memory_sleeps"`
	// AsksTotal counts how often callers that had lost a connection have asked what became of
	// their calls. EndedKept is the number of connections that have ended and about which they
	// can ask at this moment.
	AsksTotal uint64 `json:"asks_total"`
	EndedKept int    `json:"ended_kept"`
	// Goroutines and HeapBytes are those of the whole process.
	Goroutines int    `json:"goroutines"`
	HeapBytes  uint64 `json:"heap_bytes"`
	// Functions has the counters of each registered function by its name.
	Functions map[string]FunctionStatistics `json:"functions"`
}

// FunctionStatistics counts the calls of one function that have ended.
type FunctionStatistics struct {
	// Calls counts all of these calls, and Failures those that have failed.
	Calls    uint64 `json:"calls"`
	Failures uint64 `json:"failures"`
	// RunTimeNs is the time that all of them took together. For a function that is called
	// through shared memory and takes less than a microsecond it is estimated from
	// samples.
	RunTimeNs uint64 `json:"run_time_ns"`
}

// Statistics returns the current counters of the server.
func (s *Server) Statistics() Statistics {
	all := Statistics{
		ProcessID: os.Getpid(), UptimeMs: time.Since(s.started).Milliseconds(),
		Connections: s.users.count(), Parked: s.counters.parked.Load(), ConnectionsTotal: s.counters.connections.Load(),
		RefusedTotal: s.counters.refused.Load(), ViolationsTotal: s.counters.violations.Load(),
		InputBytes: s.users.input.held.Load(), OutputBytes: s.users.output.held.Load(),
		SharedMemoryTotal: s.counters.memories.Load(), SharedMemoryRefusedTotal: s.counters.memoriesMissing.Load(),
		SharedMemorySleeps: s.counters.sleeps.ByCause(),
		AsksTotal:          s.counters.asks.Load(), EndedKept: s.histories.count(),
		Goroutines: runtime.NumGoroutine(), HeapBytes: heapBytes(),
		Functions: make(map[string]FunctionStatistics),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.registered {
		all.Functions[f.name] = FunctionStatistics{Calls: f.calls.Load(), Failures: f.failures.Load(), RunTimeNs: f.runTimeTotalNs()}
	}
	return all
}

// heapBytes does not use runtime.ReadMemStats, which stops all goroutines: any caller
// may ask for the statistics, as often as it likes.
func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

func (s *Server) statistics() (string, error) {
	text, err := json.Marshal(s.Statistics())
	return string(text), err
}
