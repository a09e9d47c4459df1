package server_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/direct"
	"github.com/nearcall/nearcall/internal/wire"
)

// BenchmarkDirect measures what a call within the process costs between package embed and
// the function. Turns of calls are timed and their median is printed, because other
// programs may use the machine too: a function seems slow when one does, and is not run
// in its caller's thread for a while.
func BenchmarkDirect(b *testing.B) {
	type reading struct {
		Name  string
		Value float64
	}
	newFunctions := func() direct.Functions {
		s := newServer(b)
		s.Register("raw", func(data []byte) []byte { return data })
		s.Register("add", func(a, c int64) int64 { return a + c })
		s.Register("five", func(a, c, d, e, f int32) int32 { return a + c + d + e + f })
		s.Register("struct", func(r reading) (reading, error) { return r, nil })
		return directOf(b, s)
	}
	for _, call := range []struct {
		name    string
		codec   wire.Codec
		payload string
	}{
		{"raw", wire.CodecRaw, "sixty-four bytes are what is sent in most of the rows of a bench."},
		{"add", wire.CodecMessagePack, "\x92\x00\x01"},
		{"five", wire.CodecMessagePack, "\x95\x00\x01\x02\x03\x04"},
		{"struct", wire.CodecMessagePack, "\x91\x82\xa4Name\xa1n\xa5Value\xcb\x00\x00\x00\x00\x00\x00\x00\x00"},
	} {
		b.Run(call.name, func(b *testing.B) {
			functions, payload := newFunctions(), []byte(call.payload)
			var turns []float64
			for b.Loop() {
				ns, quick := directTurn(functions, functions.Find(call.name), call.codec, payload)
				if turns = append(turns, ns); !quick {
					functions, turns = newFunctions(), turns[:len(turns)-1]
				}
			}
			slices.Sort(turns)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(turns[len(turns)/2], "ns/call")
			b.ReportMetric(turns[len(turns)/20], "ns/call-p5")
		})
	}
}

// directTurn returns how many nanoseconds a call takes, and whether all calls ran.
func directTurn(functions direct.Functions, id uint32, by wire.Codec, payload []byte) (ns float64, quick bool) {
	const calls = 200
	begin := time.Now()
	for range calls {
		run := functions.Run(id, uint8(by), payload, nil, 0)
		if run == nil {
			return 0, false
		}
		run.Release()
	}
	return float64(time.Since(begin)) / calls, true
}
