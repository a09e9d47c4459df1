package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/frames"
	"github.com/nearcall/nearcall/benchmarks/protocol"
	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
)

const allocationRuns = 2000

// libraryAllocations are those of libnearcall, which the C caller counted while
// its rows were measured; of these rows, those that were.
func libraryAllocations(_ context.Context, rows []measuredRow) ([]result.Measure, error) {
	var measures []result.Measure
	for _, of := range []struct {
		row, measure string
		size         int
	}{
		{"nearcall-c-socket", "libnearcall_allocations_raw", smallBytes},
		{"nearcall-c-socket-typed", "libnearcall_allocations_typed", typedBytes},
		{"nearcall-c-shm", "libnearcall_allocations_shm_raw", smallBytes},
		{"nearcall-c-shm-typed", "libnearcall_allocations_shm_typed", typedBytes},
	} {
		row, err := find(rows, of.row, of.size)
		if err != nil {
			continue // a filter left it out
		}
		if row.failed != "" {
			return nil, fmt.Errorf("%s failed: %s", of.row, row.failed)
		}
		var allocations, calls uint64
		for _, r := range row.rounds {
			if r.allocations == protocol.NotCounted {
				return nil, fmt.Errorf("the caller of %s did not count allocations", of.row)
			}
			allocations += r.allocations
			calls += r.calls
		}
		measures = append(measures, perCall(of.measure, float64(allocations)/float64(calls)))
	}
	return measures, nil
}

// perCall is a measure whose goal is none.
func perCall(name string, value float64) result.Measure {
	return atMost(0, name, "per call", rounded(value, 3))
}

// goAllocations are those of server and client in Go. Both are in this process,
// which counts all its allocations: once with a caller that makes none, for the
// server alone, then with the client.
func goAllocations(_ context.Context, folder string) ([]result.Measure, error) {
	path := filepath.Join(folder, "allocations.sock")
	stop, err := serveHere(path)
	if err != nil {
		return nil, err
	}
	defer stop()
	ofServer, err := serverAllocations(path)
	if err != nil {
		return nil, err
	}
	ofBoth, err := clientAllocations(path)
	return append(ofServer, ofBoth...), err
}

func serveHere(path string) (stop func(), err error) {
	s, err := server.New(server.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		s.Register("echo", func(data []byte) []byte { return data }),
		s.Register("plus", func(a, b int64) int64 { return a + b }),
		s.Register("plus_in_context", func(_ context.Context, a, b int64) (int64, error) { return a + b, nil }),
	)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	listener, err := s.Listen(ctx, "unix:"+path)
	if err != nil {
		cancel()
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, listener) }()
	return func() { cancel(); <-done }, nil
}

func serverAllocations(path string) (measures []result.Measure, err error) {
	caller, err := frames.Connect(path)
	if err != nil {
		return nil, err
	}
	defer caller.Close()
	for _, of := range []struct {
		function, measure string
		codec             wire.Codec
		payload           []byte
	}{
		{"echo", "server_allocations_raw", wire.CodecRaw, make([]byte, smallBytes)},
		{"plus", "server_allocations_typed", wire.CodecMessagePack, []byte{0x92, 0, 1}},
		{"plus_in_context", "server_allocations_typed_with_context", wire.CodecMessagePack, []byte{0x92, 0, 1}},
	} {
		id, err := caller.Resolve(of.function)
		if err != nil {
			return nil, err
		}
		measure, err := allocations(of.measure, func() error {
			_, err := caller.Call(id, of.codec, of.payload)
			return err
		})
		if err != nil {
			return nil, err
		}
		measures = append(measures, measure)
	}
	return measures, nil
}

func clientAllocations(path string) ([]result.Measure, error) {
	c, err := client.New("unix:" + path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx := context.Background()
	payload, reply := make([]byte, smallBytes), make([]byte, 0, smallBytes)
	raw, failed := allocations("server_and_go_client_allocations_raw", func() (err error) {
		reply, err = c.CallRaw(ctx, "echo", payload, reply[:0])
		return err
	})
	plus := client.Func2[int64, int64, int64](c, "plus")
	typed, err := allocations("server_and_go_client_allocations_typed", func() error {
		_, err := plus(ctx, 0, 1)
		return err
	})
	return []result.Measure{raw, typed}, errors.Join(failed, err)
}

// allocations are how many a call costs, on average.
func allocations(measure string, call func() error) (_ result.Measure, failure error) {
	count := testing.AllocsPerRun(allocationRuns, func() {
		if err := call(); err != nil {
			failure = err
		}
	})
	return perCall(measure, count), failure
}
