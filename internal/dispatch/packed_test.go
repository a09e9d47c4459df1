package dispatch_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/nearcall/nearcall/internal/dispatch"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/wire"
)

// TestTheCodecDecidesAboutBlocks: results are blocks for a caller that takes them and for no
// other, and arguments may be either.
func TestTheCodecDecidesAboutBlocks(t *testing.T) {
	numbers := make([]any, 100)
	for i := range numbers {
		numbers[i] = float64(i)
	}
	plain := encode(t, []any{numbers})
	block := encodeBlock(t, 100)
	for name, fn := range map[string]any{
		"by an adapter": dispatch.Func1(func(_ context.Context, list []float64) ([]float64, error) { return list, nil }),
		"by reflection": func(list []float64) []float64 { return list },
	} {
		f := make1(t, fn, dispatch.Options{})
		for _, arguments := range [][]byte{plain, block} {
			for by, isBlock := range map[wire.Codec]bool{wire.CodecMessagePack: false, wire.CodecPacked: true} {
				result, err := f.Call(context.Background(), by, arguments, nil)
				if err != nil || msgpack.IsPacked(result) != isBlock {
					t.Errorf("%s, %v: a block: %v, %v", name, by, msgpack.IsPacked(result), err)
				}
				if result, _, err = msgpack.AppendPlain(nil, result, 0); err != nil || !bytes.Equal(result, plain[1:]) {
					t.Errorf("%s, %v: another result, %v", name, by, err)
				}
			}
		}
	}
}

// encodeBlock returns the arguments of a call: one list of the numbers from 0 on, as a block.
func encodeBlock(t *testing.T, count int) []byte {
	t.Helper()
	f := make1(t, func() []float64 {
		list := make([]float64, count)
		for i := range list {
			list[i] = float64(i)
		}
		return list
	}, dispatch.Options{})
	list, err := f.Call(context.Background(), wire.CodecPacked, []byte{0x90}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte{0x91}, list...)
}
