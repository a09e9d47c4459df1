package codec

import (
	"fmt"
	"net"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/nearcall/nearcall/internal/descriptors"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/tinylib/msgp/msgp"
)

// A place is what surrounds a value: how many lists, maps and structs it is in, and the
// files of the call, or nil if there are none.
type place struct {
	depth int
	files *descriptors.Table
}

// inside returns the place of what a list, map or struct at this place holds.
func (p place) inside() place { return place{depth: p.depth + 1, files: p.files} }

// A node encodes and decodes one type within a plan. decode overwrites all of v.
type node interface {
	append(dst []byte, v reflect.Value, in place) ([]byte, error)
	decode(src []byte, v reflect.Value, in place) ([]byte, error)
}

// planBuilder makes one node for each type, so that a type may contain itself.
type planBuilder struct {
	nodes   map[reflect.Type]node
	options Option
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
		return &listNode{element: element}, err
	case reflect.Pointer:
		element, err := b.build(t.Elem())
		return &optionalNode{element: element}, err
	case reflect.Map:
		key, err := b.build(t.Key())
		if err != nil {
			return nil, err
		}
		element, err := b.build(t.Elem())
		return &mapNode{key: key, element: element}, err
	}
	return nil, fmt.Errorf("type %s is not supported", t)
}

func basicNode(t reflect.Type) node {
	switch t {
	case reflect.TypeFor[time.Time]():
		return timeNode{}
	case reflect.TypeFor[*os.File]():
		return fileNode{}
	case reflect.TypeFor[*net.TCPConn]():
		return connectionNode{}
	}
	switch t.Kind() {
	case reflect.Bool:
		return boolNode{}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return intNode{bits: t.Bits()}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return uintNode{bits: t.Bits()}
	case reflect.Float32, reflect.Float64:
		return floatNode{bits: t.Bits()}
	case reflect.String:
		return stringNode{}
	case reflect.Interface:
		return anyNode{plans: &dynamicPlans{}}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return bytesNode{}
		}
	}
	return nil
}

type boolNode struct{}

func (boolNode) append(dst []byte, v reflect.Value, _ place) ([]byte, error) {
	return msgp.AppendBool(dst, v.Bool()), nil
}

func (boolNode) decode(src []byte, v reflect.Value, _ place) ([]byte, error) {
	value, rest, err := msgpack.ReadBool(src)
	v.SetBool(value)
	return rest, err
}

type intNode struct{ bits int }

func (intNode) append(dst []byte, v reflect.Value, _ place) ([]byte, error) {
	return msgp.AppendInt64(dst, v.Int()), nil
}

func (n intNode) decode(src []byte, v reflect.Value, _ place) ([]byte, error) {
	value, rest, err := msgpack.ReadInt(src, n.bits)
	v.SetInt(value)
	return rest, err
}

type uintNode struct{ bits int }

func (uintNode) append(dst []byte, v reflect.Value, _ place) ([]byte, error) {
	return msgp.AppendUint64(dst, v.Uint()), nil
}

func (n uintNode) decode(src []byte, v reflect.Value, _ place) ([]byte, error) {
	value, rest, err := msgpack.ReadUint(src, n.bits)
	v.SetUint(value)
	return rest, err
}

type floatNode struct{ bits int }

func (n floatNode) append(dst []byte, v reflect.Value, _ place) ([]byte, error) {
	if n.bits == 32 {
		return msgp.AppendFloat32(dst, float32(v.Float())), nil
	}
	return msgp.AppendFloat64(dst, v.Float()), nil
}

func (n floatNode) decode(src []byte, v reflect.Value, _ place) ([]byte, error) {
	if n.bits == 32 {
		value, rest, err := readFloat32(src)
		v.SetFloat(float64(value))
		return rest, err
	}
	value, rest, err := msgpack.ReadFloat(src)
	v.SetFloat(value)
	return rest, err
}

type stringNode struct{}

func (stringNode) append(dst []byte, v reflect.Value, _ place) ([]byte, error) {
	return msgpack.AppendText(dst, v.String())
}

func (stringNode) decode(src []byte, v reflect.Value, _ place) ([]byte, error) {
	value, rest, err := readString(src)
	v.SetString(value)
	return rest, err
}

type bytesNode struct{ alias bool }

func (bytesNode) append(dst []byte, v reflect.Value, _ place) ([]byte, error) {
	return msgp.AppendBytes(dst, v.Bytes()), nil
}

func (n bytesNode) decode(src []byte, v reflect.Value, _ place) ([]byte, error) {
	read := readBytesCopy
	if n.alias {
		read = msgpack.ReadBytes
	}
	data, rest, err := read(src)
	v.SetBytes(data)
	return rest, err
}

type timeNode struct{}

func (timeNode) append(dst []byte, v reflect.Value, _ place) ([]byte, error) {
	if v.CanAddr() {
		return msgpack.AppendTime(dst, *v.Addr().Interface().(*time.Time)), nil
	}
	return msgpack.AppendTime(dst, v.Interface().(time.Time)), nil
}

func (timeNode) decode(src []byte, v reflect.Value, _ place) ([]byte, error) {
	value, rest, err := msgpack.ReadTime(src)
	*v.Addr().Interface().(*time.Time) = value
	return rest, err
}

// anyNode finds the plan of a value when it sees the value.
type anyNode struct{ plans *dynamicPlans }

func (n anyNode) append(dst []byte, v reflect.Value, in place) ([]byte, error) {
	return msgpack.AppendAny(dst, v.Interface(), in.depth, n.plans.appender(in.files))
}

func (n anyNode) decode(src []byte, v reflect.Value, in place) ([]byte, error) {
	value, rest, err := msgpack.ReadAny(src, in.depth)
	v.SetZero()
	if value != nil {
		v.Set(reflect.ValueOf(value))
	}
	return rest, err
}

// dynamicPlans keeps the plans of the types that were met in one place of type any.
// There are at most as many as the program has types.
type dynamicPlans struct{ byType sync.Map }

// appender returns an append function for package msgpack.
func (p *dynamicPlans) appender(files *descriptors.Table) msgpack.AppendOther {
	return func(dst []byte, value any, depth int) ([]byte, error) {
		return p.append(dst, value, place{depth: depth, files: files})
	}
}

func (p *dynamicPlans) append(dst []byte, value any, in place) ([]byte, error) {
	t := reflect.TypeOf(value)
	if known, ok := p.byType.Load(t); ok {
		return known.(*Plan).root.append(dst, reflect.ValueOf(value), in)
	}
	if err := schema.CheckAny(t); err != nil {
		return dst, err
	}
	plan, err := NewPlan(t)
	if err != nil {
		return dst, err
	}
	p.byType.Store(t, plan)
	return plan.root.append(dst, reflect.ValueOf(value), in)
}
