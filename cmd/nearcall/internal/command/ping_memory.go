package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/windows"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// One look at whether calls are hot takes memoryLook, after memoryWarmUp, in which the
// server gives memory and both sides find each other awake.
const (
	memoryLook   = time.Second
	memoryWarmUp = 250 * time.Millisecond
	// asleepShareMax is the share of time asleep up to which calls are called hot.
	asleepShareMax = 0.1
)

// A heat is what one look finds out.
type heat struct {
	Transport          string            `json:"transport"`
	Hot                bool              `json:"hot"`
	AsleepShare        float64           `json:"asleep_share"`
	Calls              uint64            `json:"calls"`
	MeanNs             time.Duration     `json:"mean_ns"`
	SlowestWindowPerS  float64           `json:"slowest_window_per_s"`
	CallerSleeps       map[string]uint64 `json:"caller_sleeps"`
	ServerSleeps       map[string]uint64 `json:"server_sleeps"`
	CallerThrottledNs  time.Duration     `json:"caller_throttled_ns"`
	ServerThrottledNs  time.Duration     `json:"server_throttled_ns"`
	ServerMemoriesLack uint64            `json:"shared_memory_refused_total"`
}

// sleepCauses says what the counters of client and server mean.
var sleepCauses = map[string]string{
	"nothing_came":     "nothing came for as long as a sleep costs",
	"peer_asleep":      "the other side slept",
	"in_vain":          "looking did not pay when it was tried last",
	"crowded":          "other programs want the CPUs, and have their turn",
	"one_processor":    "it may use one CPU, and the other side is not known to run on another",
	"shared_processor": "both sides were on one CPU",
	"process_turn":     "its process has one CPU, which the rest of it had meanwhile",
	"no_place":         "other connections of its process look already",
	"off":              "spin=off",
}

// A standing is what both sides have counted so far.
type standing struct {
	client          client.Waiting
	server          server.Statistics
	caller, serving time.Duration // throttled by quotas
}

func standingOf(ctx context.Context, c *client.Client) (now standing, err error) {
	text, err := c.Stats(ctx)
	if err != nil {
		return now, err
	}
	if err := json.Unmarshal([]byte(text), &now.server); err != nil {
		return now, fmt.Errorf("the server's counters are no JSON: %w", err)
	}
	now.client = c.Statistics().Waiting
	now.caller, now.serving = throttled("/", os.Getpid()), throttled("/", now.server.ProcessID)
	return now, nil
}

// lookAtHeat calls without pause, and compares what was counted before and after.
func lookAtHeat(ctx context.Context, c *client.Client) (*heat, error) {
	if _, err := callFor(ctx, c, memoryWarmUp); err != nil {
		return nil, err
	}
	before, err := standingOf(ctx, c)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	counts, err := callFor(ctx, c, memoryLook)
	if err != nil {
		return nil, err
	}
	took := time.Since(start)
	asleep := c.Statistics().Waiting.Asleep - before.client.Asleep
	after, err := standingOf(ctx, c)
	if err != nil {
		return nil, err
	}
	h := &heat{Transport: c.Transport(), CallerSleeps: since(before.client.Sleeps, after.client.Sleeps),
		ServerSleeps:      since(before.server.SharedMemorySleeps, after.server.SharedMemorySleeps),
		CallerThrottledNs: after.caller - before.caller, ServerThrottledNs: after.serving - before.serving,
		ServerMemoriesLack: after.server.SharedMemoryRefusedTotal,
		SlowestWindowPerS:  windows.RatesOf(counts, windows.Length).LeastPerS}
	for _, n := range counts {
		h.Calls += n
	}
	h.MeanNs = took / time.Duration(max(h.Calls, 1))
	h.AsleepShare = min(float64(asleep)/float64(took), 1)
	h.Hot = h.Transport == "shared memory" && h.AsleepShare <= asleepShareMax
	return h, nil
}

// callFor calls without pause, and counts the calls of each window.
func callFor(ctx context.Context, c *client.Client, length time.Duration) ([]uint64, error) {
	var reply []byte
	start := time.Now()
	counter := windows.NewCounter(0, length, windows.Length)
	for took := time.Duration(0); took < length; took = time.Since(start) {
		var err error
		reply, err = c.CallMessagePack(ctx, "nearcall.ping", noArguments, reply[:0])
		// An older server does not have it; its answer takes as long.
		var failure *status.Error
		if err != nil && !(errors.As(err, &failure) && failure.Code == status.Unimplemented) {
			return nil, err
		}
		counter.Add(int64(time.Since(start)))
	}
	return counter.Counts(), nil
}

// noArguments is an empty list in MessagePack.
var noArguments = []byte{0x90}

// since returns by how much counters have grown.
func since(before, after map[string]uint64) map[string]uint64 {
	grown := map[string]uint64{}
	for cause, n := range after {
		if n > before[cause] {
			grown[cause] = n - before[cause]
		}
	}
	return grown
}

// throttled is for how long the quota of its control group has kept a process from
// running; 0 where there is none, or nobody tells.
func throttled(root string, processID int) time.Duration {
	groups, err := os.ReadFile(filepath.Join(root, "proc", strconv.Itoa(processID), "cgroup"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(groups)) {
		// "0::/path" in version 2, "4:cpu,cpuacct:/path" in version 1.
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 || fields[1] != "" && !slices.Contains(strings.Split(fields[1], ","), "cpu") {
			continue
		}
		counters, err := os.ReadFile(filepath.Join(root, "sys/fs/cgroup", fields[1], fields[2], "cpu.stat"))
		if err == nil {
			return throttledOf(string(counters))
		}
	}
	return 0
}

func throttledOf(counters string) time.Duration {
	units := map[string]time.Duration{"throttled_usec": time.Microsecond, "throttled_time": time.Nanosecond}
	for line := range strings.Lines(counters) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && units[name] != 0 {
			return time.Duration(n) * units[name]
		}
	}
	return 0
}

// print says whether calls are hot, and why not.
func (h *heat) print(p *program, address string) {
	calls := fmt.Sprintf("%d calls in %v, mean %v, slowest %v %.0f/s", h.Calls, memoryLook, h.MeanNs, windows.Length, h.SlowestWindowPerS)
	if h.Transport != "shared memory" {
		fmt.Fprintf(p.out, "%s, by %s: %s\n  %s\n", styleFor(p.out).bold("not hot"), h.Transport, calls, h.whyNoMemory(address))
		return
	}
	verdict := "not hot"
	if h.Hot {
		verdict = "hot"
	}
	fmt.Fprintf(p.out, "%s, asleep for %.0f %% of the time: %s\n", styleFor(p.out).bold(verdict), 100*h.AsleepShare, calls)
	printSleeps(p, "caller", h.CallerSleeps, h.CallerThrottledNs)
	printSleeps(p, "server", h.ServerSleeps, h.ServerThrottledNs)
}

func (h *heat) whyNoMemory(address string) string {
	switch {
	case h.Transport == "tcp":
		return "shared memory takes a server on this machine, and its unix: address"
	case strings.Contains(address, "shm=off"):
		return "the address says shm=off"
	case h.ServerMemoriesLack > 0:
		return fmt.Sprintf("the server has refused %d connections shared memory; its log says why", h.ServerMemoriesLack)
	}
	return "the server offers no shared memory: its address says shm=off, or it was made without; or this side could not use it, of which --verbose tells"
}

// printSleeps has a line for each cause, the most frequent first.
func printSleeps(p *program, side string, sleeps map[string]uint64, throttled time.Duration) {
	byCount := func(a, b string) int { return cmp.Or(cmp.Compare(sleeps[b], sleeps[a]), cmp.Compare(a, b)) }
	for _, cause := range slices.SortedFunc(maps.Keys(sleeps), byCount) {
		fmt.Fprintf(p.out, "  %s slept %s: %s\n", side, countOf(int(sleeps[cause]), "time"), cmp.Or(sleepCauses[cause], cause))
	}
	if throttled > 0 {
		fmt.Fprintf(p.out, "  %s was kept from running for %v by the quota of its control group\n", side, throttled)
	}
}

// runMemory looks as often as it was told to.
func (p *pinging) runMemory(ctx context.Context, c *client.Client, address string) error {
	for i := range p.count {
		if i > 0 && !sleep(ctx, p.interval) {
			return nil
		}
		found, err := lookAtHeat(ctx, c)
		if err != nil {
			return err
		}
		if p.json {
			err = json.NewEncoder(p.out).Encode(found)
		} else {
			found.print(p.program, address)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
