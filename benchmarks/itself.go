package main

import (
	"crypto/md5"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/internal/demo"
)

//go:noinline
func one() int64 { return 1 }

func md5Of(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// measureItself measures the functions of the published account without any
// calling from elsewhere.
func measureItself() ([]result.Measure, error) {
	var all []result.Measure
	for _, f := range []struct {
		name string
		call func() int64
	}{
		{"go_itself_one", one},
		{"go_itself_ack", func() int64 { return demo.Ackermann(3, 4) }},
		{"go_itself_md5", func() int64 { return int64(len(md5Of("hoge"))) }},
	} {
		var sum int64 // or the compiler would call nothing
		timed := testing.Benchmark(func(b *testing.B) {
			for range b.N {
				sum += f.call()
			}
		})
		if sum == 0 {
			return nil, errors.New(f.name + " was not called")
		}
		perCall := float64(timed.T.Nanoseconds()) / float64(timed.N)
		all = append(all, result.Measure{Name: f.name, Value: rounded(perCall, 1), Unit: "ns"})
	}
	return all, nil
}
