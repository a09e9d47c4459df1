package dispatch_test

import (
	"context"
	"sync"
	"testing"

	"github.com/nearcall/nearcall/internal/dispatch"
	"github.com/nearcall/nearcall/internal/wire"
)

type pointed struct{ X, Y float64 }

func moved(point, by pointed) pointed { return pointed{point.X + by.X, point.Y + by.Y} }

// A program that starts makes all its functions and calls one: what only calls need is made
// by the first of them.
func TestMakingAFunctionCostsLittle(t *testing.T) {
	if raceEnabled {
		t.Log("allocations are counted without the race detector only")
		return
	}
	made := testing.AllocsPerRun(10, func() {
		if _, err := dispatch.NewFunction("move", moved, dispatch.Options{ParamNames: []string{"point", "by"}}); err != nil {
			t.Error(err)
		}
	})
	if made > 60 {
		t.Errorf("%v allocations", made)
	}
}

func TestFirstCallsMayComeAtTheSameTime(t *testing.T) {
	payload := encode(t, []any{map[string]float64{"X": 1, "Y": 2}, map[string]float64{"X": 3, "Y": 4}})
	for range 20 {
		f, err := dispatch.NewFunction("move", moved, dispatch.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var callers sync.WaitGroup
		results := make([]string, 8)
		for i := range results {
			callers.Go(func() {
				result, err := f.Call(context.Background(), wire.CodecMessagePack, payload, nil)
				if err != nil {
					t.Error(err)
				}
				results[i] = string(result)
			})
		}
		callers.Wait()
		for _, result := range results {
			if result != results[0] || result == "" {
				t.Errorf("got %q and %q", result, results[0])
			}
		}
	}
}
