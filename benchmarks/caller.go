package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/nearcall/nearcall/benchmarks/sample"
)

// notCounted stands for allocations where the caller cannot count them.
const notCounted = math.MaxUint64

// reportHead is how a caller's report begins; one uint64 of ns per call follows.
type reportHead struct {
	Calls, ElapsedNS, CPUNS, Allocations uint64
}

// A round is what one caller did in one round.
type round struct {
	calls       uint64
	p50, p99    float64 // ns
	perSecond   float64
	callerCPU   time.Duration
	serverCPU   time.Duration
	allocations uint64
}

// measure lets a caller call for a while and reduces its report. perSecond 0
// means as fast as it can.
func measure(caller, server *process, length time.Duration, perSecond int) (round, error) {
	before, err := processCPU(server.pid())
	if err != nil {
		return round{}, err
	}
	if _, err := fmt.Fprintf(caller.in, "run %d %d\n", length.Milliseconds(), perSecond); err != nil {
		return round{}, err
	}
	var head reportHead
	if err := binary.Read(caller.out, binary.NativeEndian, &head); err != nil {
		return round{}, fmt.Errorf("no report: %w", err)
	}
	after, err := processCPU(server.pid())
	if err != nil {
		return round{}, err
	}
	samples, err := readSamples(caller.out, head.Calls)
	if err != nil {
		return round{}, err
	}
	return round{
		calls:       head.Calls,
		p50:         float64(sample.Percentile(samples, 0.50)),
		p99:         float64(sample.Percentile(samples, 0.99)),
		perSecond:   float64(head.Calls) / time.Duration(head.ElapsedNS).Seconds(),
		callerCPU:   time.Duration(head.CPUNS),
		serverCPU:   after - before,
		allocations: head.Allocations,
	}, nil
}

// readSamples returns the samples in ascending order; at least one.
func readSamples(from io.Reader, count uint64) ([]uint64, error) {
	if count == 0 {
		return nil, fmt.Errorf("not one call was made")
	}
	samples := make([]uint64, count)
	if err := binary.Read(from, binary.NativeEndian, samples); err != nil {
		return nil, fmt.Errorf("the report breaks off: %w", err)
	}
	slices.Sort(samples)
	return samples, nil
}
