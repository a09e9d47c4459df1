package client_test

import (
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/nearcall/nearcall/internal/codec"
)

// mixed has a value of every kind that a result may have.
type mixed struct {
	Name    string            `nearcall:"name"`
	Data    []byte            `nearcall:"data"`
	Texts   []string          `nearcall:"texts"`
	Numbers []float64         `nearcall:"numbers"`
	Pairs   map[string]uint16 `nearcall:"pairs"`
	Inner   *mixed            `nearcall:"inner"`
	Any     any               `nearcall:"any"`
}

// Results are decoded where they lie, in memory that a server has mapped too. One that writes
// there meanwhile gives its caller other values or an error, and nothing worse. The memory is
// mapped, as there, so that the race detector does not see it either.
func TestDecodingFromMemoryThatChanges(t *testing.T) {
	const decodings = 20000
	value := mixed{Name: "outer", Data: make([]byte, 300), Texts: []string{"a", "b", "c"}, Numbers: []float64{1, 2.5},
		Pairs: map[string]uint16{"x": 1, "y": 2}, Any: map[string]any{"list": []any{"a", int64(1), []byte("b")}}}
	value.Inner = &mixed{Name: "inner", Data: []byte("more")}
	plan, err := codec.NewPlan(reflect.TypeFor[mixed](), codec.IgnoreUnknownFields, codec.ListFillsFields)
	must(t, err)
	encoded, err := plan.Append(nil, reflect.ValueOf(value))
	must(t, err)
	shared, err := syscall.Mmap(-1, 0, len(encoded), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_ANON)
	must(t, err)
	copy(shared, encoded)
	var stop atomic.Bool
	var writer sync.WaitGroup
	writer.Go(func() {
		for !stop.Load() {
			at := rand.IntN(len(shared))
			shared[at] = byte(rand.Uint32())
			shared[at] = encoded[at]
		}
	})
	failures := 0
	into := mixed{Data: make([]byte, 0, 400)}
	for range decodings {
		if _, err := plan.DecodeWith(&codec.Beside{Reuses: true}, shared, reflect.ValueOf(&into).Elem()); err != nil {
			failures++
		}
	}
	stop.Store(true)
	writer.Wait()
	must(t, syscall.Munmap(shared))
	t.Logf("%d of %d decodings failed", failures, decodings)
	// Nothing of what was decoded lies there.
	_ = reflect.DeepEqual(into, value)
}
