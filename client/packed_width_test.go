package client_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
)

// A record has a list inside, whose elements are of one width on each side.
type record[E any] struct {
	Numbers []E `nearcall:"numbers"`
}

func totalOf[E int64 | uint16 | float64](numbers []E) (total float64) {
	for _, number := range numbers {
		total += float64(number)
	}
	return total
}

func registerTotals(s *server.Server) {
	s.Register("integers", totalOf[int64], server.Params("numbers"))
	s.Register("narrow", totalOf[uint16], server.Params("numbers"))
	s.Register("floats", totalOf[float64], server.Params("numbers"))
	s.Register("record", func(r record[float64]) float64 { return totalOf(r.Numbers) }, server.Params("record"))
	s.Register("optional", func(numbers []*int64) (total float64) {
		for _, number := range numbers {
			total += float64(*number)
		}
		return total
	}, server.Params("numbers"))
}

// callWidths calls a function in all ways with count times the number 7.
func callWidths[E int | int32 | int64 | uint16 | float32 | float64](c *client.Client, name string, count int) map[string]func() (float64, error) {
	ctx, numbers := context.Background(), make([]E, count)
	for i := range numbers {
		numbers[i] = 7
	}
	return map[string]func() (float64, error){
		"Call":  func() (float64, error) { return client.Call[float64](ctx, c, name, numbers) },
		"Func1": func() (float64, error) { return client.Func1[[]E, float64](c, name)(ctx, numbers) },
		"FuncN": func() (float64, error) { return client.FuncN[float64](c, name)(ctx, numbers) },
	}
}

// TestListsOfAnotherWidth: the server checks each number, however long the list is.
func TestListsOfAnotherWidth(t *testing.T) {
	c := newClient(t, serve(t, "unix:"+filepath.Join(t.TempDir(), "s"), registerTotals))
	for _, count := range []int{3, 1000} {
		for what, ways := range map[string]map[string]func() (float64, error){
			"int32 for int64":          callWidths[int32](c, "integers", count),
			"uint16 for int64":         callWidths[uint16](c, "integers", count),
			"int64 for uint16":         callWidths[int64](c, "narrow", count),
			"int64 for float64":        callWidths[int64](c, "floats", count),
			"float32 for float64":      callWidths[float32](c, "floats", count),
			"int64 for optional int64": callWidths[int64](c, "optional", count),
			"int for int64":            callWidths[int](c, "integers", count),
			"float64 for float64":      callWidths[float64](c, "floats", count),
		} {
			for way, call := range ways {
				if got, err := call(); err != nil || got != float64(7*count) {
					t.Errorf("%d times %s by %s: %v, %v", count, what, way, got, err)
				}
			}
		}
		inside := record[int32]{make([]int32, count)}
		inside.Numbers[0] = 7
		if got, err := client.Func1[record[int32], float64](c, "record")(context.Background(), inside); err != nil || got != 7 {
			t.Errorf("%d times int32 inside a struct: %v, %v", count, got, err)
		}
	}
}

// TestListsForCodeThatWasGenerated: since then the function takes a wider number, and the
// program does not care.
func TestListsForCodeThatWasGenerated(t *testing.T) {
	c := newClient(t, serve(t, "unix:"+filepath.Join(t.TempDir(), "s"), registerTotals), client.WithDrift(client.DriftIgnored))
	option := client.GeneratedFrom(string(describe(t, "integers", func([]int32) float64 { return 0 }, "numbers").JSON()))
	numbers := make([]int32, 1000)
	numbers[0] = 7
	typed, variadic := client.Func1[[]int32, float64](c, "integers", option), client.FuncN[float64](c, "integers", option)
	for range 2 {
		got, err := typed(context.Background(), numbers)
		if must(t, err); got != 7 {
			t.Errorf("Func1: %v", got)
		}
		got, err = variadic(context.Background(), numbers)
		if must(t, err); got != 7 {
			t.Errorf("FuncN: %v", got)
		}
	}
}

// TestBlocksOnReplacedServer: the list is a block only where the function has its elements.
func TestBlocksOnReplacedServer(t *testing.T) {
	p := describingPeer(t)
	p.welcome.Accepted |= wire.FeaturePackedLists
	c, numbers := p.client(), make([]int64, 1000)
	total := client.Func1[[]int64, float64](c, "total")
	ways := []func() (float64, error){
		func() (float64, error) { return total(context.Background(), numbers) },
		func() (float64, error) { return client.Call[float64](context.Background(), c, "total", numbers) },
	}
	same := describe(t, "total", func([]int64) float64 { return 0 }, "numbers")
	other := describe(t, "total", func([]float64) float64 { return 0 }, "numbers")
	var conn *peerConn
	for i, of := range []*schema.Function{same, other, same} {
		p.welcome.SchemaHash++
		for j, call := range ways {
			done := make(chan error, 1)
			go func() {
				_, err := call()
				done <- err
			}()
			if j == 0 {
				conn = p.serveDescribing()
				conn.answer(of)
			}
			request := conn.expectCheck(of)
			if block := msgpack.IsPacked(request.Payload[1:]); request.Codec != wire.CodecPacked || block != (of == same) {
				t.Errorf("server %d, way %d: a request in %v, a block: %v", i, j, request.Codec, block)
			}
			conn.reply(request, []byte{0x07})
			must(t, <-done)
		}
		conn.end()
		eventually(t, func() bool { return c.Transport() == "" }, func() string { return "the end was not read" })
	}
}

func registerLists(s *server.Server) {
	s.Register("integers", func(count int64) []int32 { return manySevens[int32](count) }, server.Params("count"))
	s.Register("floats", func(count int64) []float32 { return manySevens[float32](count) }, server.Params("count"))
	s.Register("record", func(count int64) record[int32] { return record[int32]{manySevens[int32](count)} }, server.Params("count"))
	s.Register("two", func(count int64) ([]int32, int64) { return manySevens[int32](count), 1 }, server.Params("count"))
	s.Register("same", func(numbers []float64) []float64 { return numbers }, server.Params("numbers"))
}

func manySevens[E int32 | float32 | float64](count int64) []E {
	numbers := make([]E, count)
	for i := range numbers {
		numbers[i] = 7
	}
	return numbers
}

// resultOf calls by name and by a function made before, which must be one.
func resultOf[R any](t *testing.T, c *client.Client, name string, count int64, first func(R) float64) {
	t.Helper()
	got, err := client.Call[R](context.Background(), c, name, count)
	if err != nil || first(got) != 7 {
		t.Errorf("Call[%T] of %s, %d elements: %v", got, name, count, err)
	}
	if got, err = client.Func1[int64, R](c, name)(context.Background(), count); err != nil || first(got) != 7 {
		t.Errorf("Func1[int64, %T] of %s, %d elements: %v", got, name, count, err)
	}
}

// TestResultsOfAnotherWidth: a program that wants wider numbers gets them, however long the list is
// and by whatever it is called.
func TestResultsOfAnotherWidth(t *testing.T) {
	c := newClient(t, serve(t, "unix:"+filepath.Join(t.TempDir(), "s"), registerLists))
	for _, count := range []int64{3, 1000} {
		resultOf(t, c, "integers", count, func(got []int64) float64 { return float64(got[count-1]) })
		resultOf(t, c, "integers", count, func(got []float64) float64 { return got[count-1] })
		resultOf(t, c, "floats", count, func(got []float64) float64 { return got[count-1] })
		resultOf(t, c, "record", count, func(got record[int64]) float64 { return float64(got.Numbers[count-1]) })
		resultOf(t, c, "two", count, func(got struct {
			A []int64
			B int64
		}) float64 {
			return float64(got.A[count-1])
		})
		got, err := client.Call[[]any](context.Background(), c, "same", manySevens[float64](count))
		if err != nil || got[count-1] != float64(7) {
			t.Errorf("Call[[]any] of same, %d elements: %v", count, err)
		}
	}
}
