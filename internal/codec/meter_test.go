package codec_test

import (
	"fmt"
	"math"
	"runtime"
	"strconv"
	"testing"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/msgpack"
)

// A countingLender lends whatever is asked for.
type countingLender struct{ lent int }

func (l *countingLender) Lend(bytes int) (int, error) { l.lent += bytes; return bytes, nil }

// heapBytes is what is alive.
func heapBytes() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// measureMaps decodes a list of so many maps and returns what they were counted for, and what
// they take.
func measureMaps[K comparable, V any](t *testing.T, maps, pairs int, key func(int) K) (counted, taken int) {
	t.Helper()
	one := make(map[K]V, pairs)
	for i := range pairs {
		var element V
		one[key(i)] = element
	}
	list := make([]map[K]V, maps)
	for i := range list {
		list[i] = one
	}
	of, err := codec.For[[]map[K]V]()
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := of.Append(nil, &list)
	if err != nil {
		t.Fatal(err)
	}
	lender := &countingLender{}
	beside, decoded := codec.Beside{Meter: &msgpack.Meter{Lender: lender}}, new([]map[K]V)
	before := heapBytes()
	if _, err := of.DecodeWith(&beside, encoded, decoded); err != nil {
		t.Fatal(err)
	}
	taken = heapBytes() - before
	runtime.KeepAlive(decoded)
	runtime.KeepAlive(encoded)
	return lender.lent, taken
}

// A wide value lies in the slots of a map, a wider one beside them.
type (
	wide struct {
		A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P int64
	}
	wider struct {
		Left, Right wide
	}
)

// TestMapsAreCountedAsTheyAreMade: a map of one pair takes as much as one of eight, whatever
// came for it.
func TestMapsAreCountedAsTheyAreMade(t *testing.T) {
	number := func(i int) int64 { return int64(i) }
	text := func(i int) string { return strconv.Itoa(i) }
	for name, measure := range map[string]func(maps, pairs int) (int, int){
		"map[string]wide":   func(maps, pairs int) (int, int) { return measureMaps[string, wide](t, maps, pairs, text) },
		"map[int64]wide":    func(maps, pairs int) (int, int) { return measureMaps[int64, wide](t, maps, pairs, number) },
		"map[int64]wider":   func(maps, pairs int) (int, int) { return measureMaps[int64, wider](t, maps, pairs, number) },
		"map[string]int64":  func(maps, pairs int) (int, int) { return measureMaps[string, int64](t, maps, pairs, text) },
		"map[string]any":    func(maps, pairs int) (int, int) { return measureMaps[string, any](t, maps, pairs, text) },
		"map[string]string": func(maps, pairs int) (int, int) { return measureMaps[string, string](t, maps, pairs, text) },
	} {
		for _, pairs := range []int{0, 1, 8, 9, 64, 1000} {
			t.Run(fmt.Sprintf("%s of %d", name, pairs), func(t *testing.T) {
				counted, taken := measure(1+20_000/(pairs+1), pairs)
				if share := float64(counted) / float64(taken); share < 0.75 || share > 2.5 || math.IsNaN(share) {
					t.Errorf("%d bytes are counted for %d: %.2f", counted, taken, share)
				}
			})
		}
	}
}
