package main

import (
	"crypto/md5"
	"encoding/hex"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/result"
)

//go:noinline
func one() int64 { return 1 }

//go:noinline
func ackermann(m, n int64) int64 {
	switch {
	case m == 0:
		return n + 1
	case n == 0:
		return ackermann(m-1, 1)
	}
	return ackermann(m-1, ackermann(m, n-1))
}

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
		call func()
	}{
		{"go_itself_one", func() { one() }},
		{"go_itself_ack", func() { ackermann(3, 4) }},
		{"go_itself_md5", func() { md5Of("hoge") }},
	} {
		timed := testing.Benchmark(func(b *testing.B) {
			for range b.N {
				f.call()
			}
		})
		perCall := float64(timed.T.Nanoseconds()) / float64(timed.N)
		all = append(all, result.Measure{Name: f.name, Value: rounded(perCall, 1), Unit: "ns"})
	}
	return all, nil
}
