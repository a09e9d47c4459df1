package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// appendResult adds the rows of a result to a file of benchmarks. Floors are left out:
// they are not this project's to make slower.
func appendResult(path, resultPath string) (err error) {
	r, err := result.Read(resultPath)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	writer := benchfmt.NewWriter(file)
	for _, row := range r.Rows {
		if strings.HasPrefix(row.Name, "floor-") {
			continue
		}
		if err := writer.Write(benchmarkOf(row)); err != nil {
			return err
		}
	}
	return nil
}

// benchmarkOf is a row as a benchmark: its p50 is the time of an operation.
func benchmarkOf(row result.Row) *benchfmt.Result {
	return &benchfmt.Result{
		Name:  benchfmt.Name(fmt.Sprintf("Call/row=%s/bytes=%d", row.Name, row.Size)),
		Iters: int(row.Calls),
		Values: []benchfmt.Value{
			{Value: float64(row.MedianOfRounds.P50NS), Unit: "ns/op"},
			{Value: float64(row.MedianOfRounds.P99NS), Unit: "p99-ns/op"},
		},
	}
}
