package codec

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/nearcall/nearcall/internal/memory"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/schema"
)

// A place is what surrounds a value: how many lists, maps and structs it is in, and what
// goes beside the payload, or nil.
type place struct {
	depth  int
	beside *Beside
	// zeroed says that the memory into which the value is decoded is zero.
	zeroed bool
}

// inside returns the place of what a list, map or struct at this place holds.
func (p place) inside() place { return place{depth: p.depth + 1, beside: p.beside} }

// insideZeroed is inside for memory that is zero.
func (p place) insideZeroed() place {
	return place{depth: p.depth + 1, beside: p.beside, zeroed: true}
}

// A node encodes and decodes values of one type within a plan. decode overwrites all of the
// value.
type node interface {
	append(dst []byte, m memory.Memory, in place) ([]byte, error)
	decode(src []byte, m memory.Memory, in place) ([]byte, error)
}

// planBuilder makes one node for each type, so that a type may contain itself.
type planBuilder struct {
	nodes   map[reflect.Type]node
	options Option
	packs   bool // a list was met that can be packed
}

// build returns the node of a type that schema.FromGoType has accepted.
func (b *planBuilder) build(t reflect.Type) (node, error) {
	if known, ok := b.nodes[t]; ok {
		return known, nil
	}
	if basic := basicNode(t); basic != nil {
		return basic, nil
	}
	switch t.Kind() {
	case reflect.Struct:
		return b.buildStruct(t)
	case reflect.Slice:
		element, err := b.build(t.Elem())
		if packed := b.packable(t, element); packed != nil {
			return packed, err
		}
		if b.options&WidenLists != 0 {
			return expandingNode{newListNode(t, element)}, err
		}
		return newListNode(t, element), err
	case reflect.Pointer:
		element, err := b.build(t.Elem())
		return &optionalNode{of: t.Elem(), element: element}, err
	case reflect.Map:
		if known := textMapNodeOf(t); known != nil {
			return known, nil
		}
		key, err := b.build(t.Key())
		if err != nil {
			return nil, err
		}
		element, err := b.build(t.Elem())
		return newMapNode(t, key, element), err
	}
	return nil, fmt.Errorf("type %s is not supported", t)
}

// anyNode finds the plan of a value when it sees the value.
type anyNode struct{ plans *dynamicPlans }

func (n anyNode) append(dst []byte, m memory.Memory, in place) ([]byte, error) {
	return msgpack.AppendAny(dst, *memory.As[any](m), in.depth, n.plans.appender(in.beside))
}

func (n anyNode) decode(src []byte, m memory.Memory, in place) (rest []byte, err error) {
	*memory.As[any](m), rest, err = msgpack.ReadAnyBy(in.beside.MeterOf(), src, in.depth)
	return rest, err
}

func (anyNode) grow(m memory.Memory, kept, room int) { growList[any](m, kept, room) }

// dynamicPlans keeps the plans of the types that were met in one place of type any.
// There are at most as many as the program has types.
type dynamicPlans struct{ byType sync.Map }

// appender returns an append function for package msgpack.
func (p *dynamicPlans) appender(beside *Beside) msgpack.Other {
	return msgpack.Other{BytesMax: beside.bytesMax(), Append: func(dst []byte, value any, depth int) ([]byte, error) {
		return p.append(dst, value, place{depth: depth, beside: beside})
	}}
}

func (p *dynamicPlans) append(dst []byte, value any, in place) ([]byte, error) {
	t := reflect.TypeOf(value)
	if known, ok := p.byType.Load(t); ok {
		return known.(*Plan).root.append(dst, memoryOf(reflect.ValueOf(value)), in)
	}
	if err := schema.CheckAny(t); err != nil {
		return dst, err
	}
	plan, err := NewPlan(t)
	if err != nil {
		return dst, err
	}
	p.byType.Store(t, plan)
	return plan.root.append(dst, memoryOf(reflect.ValueOf(value)), in)
}

// memoryOf returns where a value lies. A value that has no address is copied.
func memoryOf(v reflect.Value) memory.Memory {
	if v.CanAddr() {
		return memory.Of(v)
	}
	copied := reflect.New(v.Type()).Elem()
	copied.Set(v)
	return memory.Of(copied)
}
