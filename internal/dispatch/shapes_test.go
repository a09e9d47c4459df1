package dispatch_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/dispatch"
	"github.com/nearcall/nearcall/internal/wire"
)

// A shape is a function whose signature stands for many.
type shape struct {
	name string
	fn   any
	args []any
	// holds is how many allocations the values themselves take: a string that was
	// received is one, and so are the elements of a list.
	holds float64
}

type (
	account int64
	money   struct {
		Amount   int64  `json:"amount"`
		Currency string `json:"currency"`
	}
	small struct {
		ID    int32 `json:"id"`
		Kind  uint8 `json:"kind"`
		Valid bool  `json:"valid"`
	}
	span    struct{ From, To float64 }
	booking struct {
		Owner account `json:"owner"`
		Sum   money   `json:"sum"`
		Span  span    `json:"span"`
	}
	ledger struct{ opened int64 }
	// A profile has more words than registers hold.
	profile struct {
		Name, Email, Town string
		Tags              []string
		Born              time.Time
		Age               int32
	}
)

func (l *ledger) open(of account, sum int64) (account, error) { return of + account(l.opened+sum), nil }

// ratioBase is the shape that all others are compared with.
const ratioBase = "int64, int64"

func shapes() []shape {
	five := int64(5)
	moment := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	large := profile{"a name", "name@example.org", "a town", []string{"tag"}, moment, 50}
	eur := money{Amount: 5, Currency: "EUR"}
	return []shape{
		{ratioBase, func(a, b int64) int64 { return a + b }, []any{3, 4}, 0},
		{"five ints", func(a, b, c, d, e int) int { return a + b + c + d + e }, []any{1, 2, 3, 4, 5}, 0},
		{"five ints, context, error", func(_ context.Context, a, b, c, d, e int) (int, error) { return a + b + c + d + e, nil }, []any{1, 2, 3, 4, 5}, 0},
		{"int32", func(a, b int32) int32 { return a + b }, []any{1000, -2}, 0},
		{"named int, uint8, bool", func(a account, b uint8, c bool) account { return a + account(b) }, []any{1000, 2, true}, 0},
		{"float32, float64, int", func(a float32, b float64, c int) float64 { return float64(a) + b + float64(c) }, []any{1.5, 2.25, 3}, 0},
		{"struct of numbers", func(s small) small { s.ID++; return s }, []any{small{1, 2, true}}, 0},
		{"struct of floats", func(s span) span { return span{s.To, s.From} }, []any{span{1, 2}}, 0},
		{"struct", func(m money) money { m.Amount++; return m }, []any{eur}, 1},
		{"struct, error", func(_ context.Context, m money) (money, error) { m.Amount++; return m, nil }, []any{eur}, 1},
		{"structs in a struct", func(b booking) (booking, error) { return b, nil }, []any{booking{1, eur, span{1, 2}}}, 1},
		{"pointer to a struct", func(m *money) (*money, error) { m.Amount++; return m, nil }, []any{eur}, 2},
		{"pointer to an integer", func(a *int64) *int64 { *a++; return a }, []any{&five}, 1},
		{"two results", func(a, b int64) (int64, int64) { return a / b, a % b }, []any{7, 2}, 0},
		{"two results and an error", func(a string, b int64) (string, int64, error) { return a, b, nil }, []any{"text", 2}, 1},
		{"no result", func(a, b int64) {}, []any{7, 2}, 0},
		{"error only", func(a, b, c int64) error { return nil }, []any{7, 2, 3}, 0},
		{"list of int64", func(list []int64) int64 { return list[0] }, []any{[]int64{1, 2, 3, 4, 5, 6, 7, 8}}, 1},
		{"list of int64, both ways", func(list []int64) []int64 { return list }, []any{[]int64{1, 2, 3, 4, 5, 6, 7, 8}}, 1},
		{"list of strings", func(list []string) []string { return list }, []any{[]string{"a", "bc"}}, 3},
		{"list of structs", func(list []span) []span { return list }, []any{[]span{{1, 2}, {3, 4}, {5, 6}}}, 1},
		{"map", func(m map[string]int64) int64 { return m["b"] }, []any{map[string]int64{"ab": 1, "b": 2}}, 3},
		{"map, both ways", func(m map[string]int64) map[string]int64 { return m }, []any{map[string]int64{"ab": 1, "b": 2}}, 3},
		{"string", func(s string) string { return s }, []any{"text of a caller"}, 1},
		{"string, three ways", func(a string, b int32, c string) (string, error) { return a, nil }, []any{"a caller", 1, "other"}, 2},
		{"bytes", func(b []byte) []byte { return b }, []any{[]byte("payload")}, 0},
		{"bytes, int", func(b []byte, n int) ([]byte, int) { return b[:n], n }, []any{[]byte("payload"), 3}, 0},
		{"time, duration", func(t time.Time, d time.Duration) time.Time { return t.Add(d) }, []any{moment, time.Second}, 0},
		{"variadic", func(a int64, more ...int64) int64 { return a + more[1] }, []any{1, 2, 3}, 1},
		{"variadic, none", func(a int64, more ...int64) int64 { return a }, []any{1}, 0},
		{"method", (&ledger{opened: 5}).open, []any{1, 2}, 0},
		{"ten ints", func(a, b, c, d, e, f, g, h, i, j int) int { return a + j }, []any{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 0},
		{"large struct, error", func(p profile) error { return nil }, []any{large}, 5},
		{"large struct", func(p profile) (profile, error) { return p, nil }, []any{large}, 9},
		{"large struct by pointer", func(p *profile) (*profile, error) { return p, nil }, []any{large}, 6},
		{"adapted large struct", dispatch.Func1(func(_ context.Context, p profile) (profile, error) { return p, nil }), []any{large}, 5},
		{"adapted struct", dispatch.Func1(func(_ context.Context, m money) (money, error) { return m, nil }), []any{eur}, 1},
		{"an error", func(a account) (account, error) { return a, errAsked }, []any{1}, 4},
	}
}

var errAsked = errors.New("this was asked for")

func (s *shape) prepare(t testing.TB) (call func() error) {
	f := make1(t, s.fn, dispatch.Options{})
	payload, dst := encode(t, s.args), make([]byte, 0, 512)
	ctx := context.Background()
	return func() error {
		_, err := f.Call(ctx, wire.CodecMessagePack, payload, dst)
		return err
	}
}

// TestShapesCostOnlyWhatTheirValuesHold: whatever a function looks like, a call allocates
// only what the function may keep.
func TestShapesCostOnlyWhatTheirValuesHold(t *testing.T) {
	if raceEnabled {
		t.Log("allocations are counted without the race detector only")
		return
	}
	for _, s := range shapes() {
		call := s.prepare(t)
		if got := testing.AllocsPerRun(1000, func() { call() }); got > s.holds {
			t.Errorf("%s: %v allocations, at most %v are expected", s.name, got, s.holds)
		}
	}
}

// callsOfTurn is how many calls one turn makes, so that reading the clock costs little of it
// and few turns are interrupted.
const callsOfTurn = 200

// BenchmarkShapes prints for each shape how many times as long as the first it takes. Both
// take turns, and medians are compared, because other programs may use the machine too.
func BenchmarkShapes(b *testing.B) {
	base := shapes()[0]
	for _, s := range shapes() {
		b.Run(s.name, func(b *testing.B) {
			callBase, call := base.prepare(b), s.prepare(b)
			var ofBase, ofShape []float64
			for b.Loop() {
				ofBase = append(ofBase, turn(callBase))
				ofShape = append(ofShape, turn(call))
			}
			slices.Sort(ofBase)
			slices.Sort(ofShape)
			middle := len(ofBase) / 2
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(ofShape[middle], "ns/call")
			b.ReportMetric(ofShape[middle]/ofBase[middle], "times")
			b.ReportMetric(testing.AllocsPerRun(100, func() { call() }), "allocs/call")
		})
	}
}

// turn returns how many nanoseconds a call took, on average.
func turn(call func() error) float64 {
	begin := time.Now()
	for range callsOfTurn {
		call()
	}
	return float64(time.Since(begin)) / callsOfTurn
}
