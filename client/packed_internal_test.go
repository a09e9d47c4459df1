package client

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// requestOf returns a call with these arguments, encoded for a server that takes blocks.
func requestOf(t *testing.T, args ...any) *call {
	t.Helper()
	r := newCall(nil)
	r.options = new(callOptions)
	r.gather()
	payload, _, failure := appendArguments(&r.beside, r.request[:0], args)
	if failure != nil {
		t.Fatal(failure)
	}
	r.codec, r.payload = wire.CodecPacked, payload
	return r
}

// TestARequestWithoutBlocksIsNotCopied: for a server that takes none it is what it would be
// anyway. Its result, or another value of its types, might have had some.
func TestARequestWithoutBlocksIsNotCopied(t *testing.T) {
	c := new(connection)
	data := make([]byte, 1<<20)
	for name, args := range map[string][]any{
		"a gathered argument": {data, []float64{1}},
		"a copied argument":   {string(data)},
	} {
		r := requestOf(t, args...)
		before, pieces := r.payload, len(r.beside.Pieces)
		if failure := c.unpack(r); failure != nil || r.codec != wire.CodecMessagePack {
			t.Fatalf("%s: a request in %v, %v", name, r.codec, failure)
		}
		if &r.payload[0] != &before[0] || len(r.payload) != len(before) || len(r.beside.Pieces) != pieces {
			t.Errorf("%s: the request was copied", name)
		}
	}
	numbers := make([]float64, 100)
	r := requestOf(t, numbers)
	if failure := c.unpack(r); failure != nil || r.codec != wire.CodecMessagePack || msgpack.IsPacked(r.payload[1:]) {
		t.Errorf("a block in a request in %v: %v", r.codec, failure)
	}
	r.gather()
	again, _, failure := appendArguments(&r.beside, nil, []any{data})
	r.codec, r.payload = wire.CodecPacked, again
	if failure == nil {
		failure = c.unpack(r)
	}
	if failure != (*status.Error)(nil) || !bytes.Equal(r.payload, again) || len(r.beside.Pieces) != 1 {
		t.Errorf("a request that is put together where there was one with blocks: %v, %d pieces", failure, len(r.beside.Pieces))
	}
}

// TestLookingAtTypesOnce: what was found out about the types of arguments costs no memory later.
func TestLookingAtTypesOnce(t *testing.T) {
	signature, err := schema.SignatureOf(reflect.TypeFor[func([]float64)]())
	if err != nil {
		t.Fatal(err)
	}
	of, err := schema.FromGoFunction("total", signature, schema.GoOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f := &describedFunction{Function: of}
	same, other := []reflect.Type{reflect.TypeFor[[]float64]()}, []reflect.Type{reflect.TypeFor[[]float32]()}
	allocations := testing.AllocsPerRun(100, func() {
		if !f.takesBlocks(same) || f.takesBlocks(other) {
			t.Error("another answer")
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}
