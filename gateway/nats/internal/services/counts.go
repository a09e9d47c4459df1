package services

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/nearcall/nearcall/internal/decades"
	"github.com/nearcall/nearcall/status"
)

// classBounds are those of the histograms of times, in nanoseconds, up to ten minutes.
var classBounds = sync.OnceValue(func() []int64 { return decades.Bounds(uint64(10 * time.Minute)) })

// counts are those of an endpoint. They are safe for several goroutines.
type counts struct {
	mu       sync.Mutex
	requests int
	inFlight int
	errors   map[string]int // by code
	last     string
	total    time.Duration
	classes  []uint64
}

func (c *counts) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight++
}

// end counts a request that took a place.
func (c *counts) end(took time.Duration, failure *status.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight--
	c.requests++
	c.total += took
	bounds := classBounds()
	if c.classes == nil {
		c.classes = make([]uint64, len(bounds))
	}
	at, exact := slices.BinarySearch(bounds, int64(took))
	if !exact {
		at--
	}
	c.classes[at]++
	c.failed(failure)
}

// refuse counts a request for which there was no place.
func (c *counts) refuse(failure *status.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	c.failed(failure)
}

func (c *counts) failed(failure *status.Error) {
	if failure == nil {
		return
	}
	if c.errors == nil {
		c.errors = map[string]int{}
	}
	c.errors[failure.Code.String()]++
	c.last = errorNumber(failure.Code) + ":" + oneLine(failure.Message)
}

// An endpointData is what the statistics of an endpoint have besides those of micro.
type endpointData struct {
	InFlight int            `json:"in_flight"`
	Errors   map[string]int `json:"errors,omitempty"`
	P50Ms    float64        `json:"p50_ms"`
	P99Ms    float64        `json:"p99_ms"`
}

// statistics fills in what micro tells of an endpoint.
func (c *counts) statistics(stats *micro.EndpointStats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stats.NumRequests, stats.LastError, stats.ProcessingTime = c.requests, c.last, c.total
	for _, count := range c.errors {
		stats.NumErrors += count
	}
	if c.requests > 0 {
		stats.AverageProcessingTime = c.total / time.Duration(c.requests)
	}
	stats.Data, _ = json.Marshal(endpointData{InFlight: c.inFlight, Errors: c.errors, P50Ms: c.quantile(50), P99Ms: c.quantile(99)})
}

// quantile returns a time in milliseconds within which so many per cent of the requests were
// answered: the end of the class in which the last of them lies.
func (c *counts) quantile(percent uint64) float64 {
	var all uint64
	bounds := classBounds()
	for _, count := range c.classes {
		all += count
	}
	below := uint64(0)
	for i, count := range c.classes {
		below += count
		if count > 0 && below*100 >= all*percent {
			return float64(bounds[min(i+1, len(bounds)-1)]) / float64(time.Millisecond)
		}
	}
	return 0
}
