// Package codec turns Go values into MessagePack and back, by plans that are built once
// for each type. It also turns JSON and command-line text into MessagePack and back, by
// a schema.
//
// It never recurses deeper than nesting_depth_max, allocates nothing for sizes that a
// header only claims, and says in its errors where a value is wrong. Package dispatch
// adds which argument that is, and what it means for the call.
package codec

import (
	"reflect"

	"github.com/nearcall/nearcall/internal/memory"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/schema"
)

// An Option changes how values are decoded.
type Option uint8

const (
	// IgnoreUnknownFields skips fields that a struct does not have, as callers
	// do with results. Without it such a field is refused, as servers do.
	IgnoreUnknownFields Option = 1 << iota
	// AliasBytes makes a decoded []byte point into the bytes that it was decoded from,
	// so it is valid only as long as they are. A []byte inside a list, map, struct or
	// any is copied, unless a Beside says otherwise.
	AliasBytes
	// ListFillsFields decodes a list that comes in place of a struct into the fields of the
	// struct, in their order, as callers do with several results. It applies to the value
	// itself and not to structs inside it.
	ListFillsFields
	// PackLists sends lists of numbers, durations and booleans as blocks, to a receiver that
	// takes them. Lists within an any are never sent so.
	PackLists
	// WidenLists takes a block of other elements than the list has, and a block in a list of any
	// values, and decodes each element as if it had come in an array. So callers do with results,
	// whose types they have compared. Without it such a block is refused, as servers do.
	WidenLists
)

func joined(options []Option) (all Option) {
	for _, option := range options {
		all |= option
	}
	return all
}

// A Codec encodes and decodes values of one Go type. Decoding allocates what the value
// holds (a string, the elements of a list) and nothing else; encoding allocates nothing. A
// Codec is immutable and may be used by many goroutines.
type Codec[T any] struct{ plan *Plan }

// For builds the codec of a type. The error says what is not supported in the type.
func For[T any](options ...Option) (*Codec[T], error) {
	plan, err := NewPlan(reflect.TypeFor[T](), options...)
	if err != nil {
		return nil, err
	}
	return &Codec[T]{plan: plan}, nil
}

// Append appends the value as MessagePack. On error dst keeps its length.
func (c *Codec[T]) Append(dst []byte, value *T) ([]byte, error) {
	return c.AppendWith(nil, dst, value)
}

// Decode decodes the value at the start of src and returns what follows it. It
// overwrites all of value; after an error value is undefined.
func (c *Codec[T]) Decode(src []byte, value *T) (rest []byte, err error) {
	return c.DecodeWith(nil, src, value)
}

// AppendWith is Append for values that may hold files, which are added to beside, or long
// []byte, which it may gather.
func (c *Codec[T]) AppendWith(beside *Beside, dst []byte, value *T) ([]byte, error) {
	return c.plan.AppendFrom(beside, dst, memory.At(value))
}

// DecodeWith is Decode for values that may hold files, which are taken from beside, or
// []byte that may keep src.
func (c *Codec[T]) DecodeWith(beside *Beside, src []byte, value *T) (rest []byte, err error) {
	return c.plan.root.decode(src, memory.At(value), place{beside: beside})
}

// Fill is DecodeWith for a value that is zero.
func (c *Codec[T]) Fill(beside *Beside, src []byte, value *T) (rest []byte, err error) {
	return c.plan.Fill(beside, src, memory.At(value))
}

// A Plan is a Codec for a type that is known only at run time.
type Plan struct {
	root  node
	packs bool
}

// NewPlan builds the plan of a type. The error says what is not supported in the type.
func NewPlan(t reflect.Type, options ...Option) (*Plan, error) {
	if _, _, err := schema.FromGoType(t); err != nil {
		return nil, err
	}
	all := joined(options)
	builder := &planBuilder{nodes: map[reflect.Type]node{}, options: all}
	root, err := builder.build(t)
	if err != nil {
		return nil, err
	}
	return &Plan{root: outermost(root, all), packs: builder.packs}, nil
}

// outermost returns the node that takes the place of root where it is not inside another.
func outermost(root node, all Option) node {
	switch of := root.(type) {
	case bytesNode:
		return bytesNode{alias: all&AliasBytes != 0}
	case *structNode:
		if all&ListFillsFields != 0 {
			return resultsNode{of}
		}
	}
	return root
}

// Append appends a value of the plan's type as MessagePack. On error dst keeps
// its length.
func (p *Plan) Append(dst []byte, value reflect.Value) ([]byte, error) {
	return p.AppendWith(nil, dst, value)
}

// AppendWith is Append for values that may hold files, which are added to beside, or long
// []byte, which it may gather.
func (p *Plan) AppendWith(beside *Beside, dst []byte, value reflect.Value) ([]byte, error) {
	return p.AppendFrom(beside, dst, memoryOf(value))
}

// AppendFrom is AppendWith for a value that lies somewhere.
func (p *Plan) AppendFrom(beside *Beside, dst []byte, m memory.Memory) ([]byte, error) {
	pieces := beside.count()
	out, err := p.root.append(dst, m, place{beside: beside})
	if err != nil {
		beside.cut(pieces)
		return out[:len(dst)], err
	}
	return out, nil
}

// Decode decodes into value, which must be settable and of the plan's type, and
// returns what follows. After an error value is undefined.
func (p *Plan) Decode(src []byte, value reflect.Value) (rest []byte, err error) {
	return p.DecodeWith(nil, src, value)
}

// DecodeWith is Decode for values that may hold files, which are taken from beside, or
// []byte that may keep src.
func (p *Plan) DecodeWith(beside *Beside, src []byte, value reflect.Value) (rest []byte, err error) {
	return p.root.decode(src, memory.Of(value), place{beside: beside})
}

// Fill is DecodeWith for a value that lies somewhere and is zero.
func (p *Plan) Fill(beside *Beside, src []byte, m memory.Memory) (rest []byte, err error) {
	return p.root.decode(src, m, place{beside: beside, zeroed: true})
}

// AppendValue appends a value of any supported type. For a type that is not basic, a
// plan is built for this call alone.
func AppendValue(dst []byte, value any) ([]byte, error) { return AppendValueWith(nil, dst, value) }

// AppendValueWith is AppendValue for values that may hold files, which are added to beside,
// or long []byte, which it may gather.
func AppendValueWith(beside *Beside, dst []byte, value any) ([]byte, error) {
	if data, ok := value.([]byte); ok {
		return beside.appendBytes(dst, data), nil
	}
	pieces := beside.count()
	out, err := msgpack.AppendAny(dst, value, 0, appendOther(beside, value))
	if err != nil {
		beside.cut(pieces)
		return out[:len(dst)], err
	}
	return out, nil
}

// appendOther makes the elements of a list or map share their plans. It costs nothing
// for a basic value.
func appendOther(beside *Beside, value any) msgpack.Other {
	switch value.(type) {
	case []any, map[string]any, map[int64]any:
		return new(dynamicPlans).appender(beside)
	}
	// This is the value itself, and the description tells its type.
	return msgpack.Other{BytesMax: beside.bytesMax(), Append: func(dst []byte, value any, depth int) ([]byte, error) {
		plan, err := NewPlan(reflect.TypeOf(value))
		if err != nil {
			return dst, err
		}
		return plan.root.append(dst, memoryOf(reflect.ValueOf(value)), place{depth: depth, beside: beside})
	}}
}
