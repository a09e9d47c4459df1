package dispatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/dispatch"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/tinylib/msgp/msgp"
)

type number struct {
	name string
	fn   any
	args []any
	// allocations the call may cost.
	most float64
}

func hotFunctions() []number {
	moment := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	return []number{
		{"no argument", func() int64 { return 1 << 40 }, nil, 0},
		{"int64, int64", func(a, b int64) int64 { return a + b }, []any{3, 4}, 0},
		{"context, int64, int64, error", func(_ context.Context, a, b int64) (int64, error) { return a + b, nil }, []any{3, 4}, 0},
		{"float64, float64", func(a, b float64) float64 { return a + b }, []any{1.5, 2.5}, 0},
		{"bytes", func(data []byte) []byte { return data }, []any{[]byte("payload")}, 0},
		{"string", func(text string) string { return text }, []any{"one for the argument"}, 1},
		{"error only", func(int64) error { return nil }, []any{1}, 0},
		{"adapted bool", dispatch.Func1(func(_ context.Context, b bool) (bool, error) { return !b, nil }), []any{true}, 0},
		{"adapted uint8, int8, float32", dispatch.Func3(func(_ context.Context, a uint8, b int8, c float32) (float32, error) {
			return float32(a) + float32(b) + c, nil
		}), []any{1, 2, 3.5}, 0},
		{"adapted time, duration", dispatch.Func2(func(_ context.Context, t time.Time, d time.Duration) (time.Time, error) {
			return t.Add(d), nil
		}), []any{moment, time.Second}, 0},
		{"adapted, four", dispatch.Func4(func(_ context.Context, a, b, c, d int32) (int64, error) {
			return int64(a) + int64(b) + int64(c) + int64(d), nil
		}), []any{1, 2, 3, 4}, 0},
	}
}

func encode(t testing.TB, args []any) []byte {
	payload := msgp.AppendArrayHeader(nil, uint32(len(args)))
	for _, arg := range args {
		var err error
		if payload, err = codec.AppendValue(payload, arg); err != nil {
			t.Fatal(err)
		}
	}
	return payload
}

func TestBasicTypesCostNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Log("allocations are counted without the race detector only")
		return
	}
	for _, test := range hotFunctions() {
		f, err := dispatch.NewFunction("f", test.fn, dispatch.Options{})
		if err != nil {
			t.Fatal(err)
		}
		payload, dst := encode(t, test.args), make([]byte, 0, 256)
		ctx := context.Background()
		got := testing.AllocsPerRun(1000, func() {
			if _, err := f.Call(ctx, wire.CodecMessagePack, payload, dst); err != nil {
				t.Fatal(err)
			}
		})
		if got > test.most {
			t.Errorf("%s: %v allocations, at most %v are expected", test.name, got, test.most)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	for _, test := range hotFunctions() {
		b.Run(test.name, func(b *testing.B) {
			f, err := dispatch.NewFunction("f", test.fn, dispatch.Options{})
			if err != nil {
				b.Fatal(err)
			}
			payload, dst := encode(b, test.args), make([]byte, 0, 256)
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.Call(ctx, wire.CodecMessagePack, payload, dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
