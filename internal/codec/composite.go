package codec

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/tinylib/msgp/msgp"
)

type listNode struct{ element node }

func (n *listNode) append(dst []byte, v reflect.Value, in place) ([]byte, error) {
	if err := msgpack.CheckDepth(in.depth); err != nil {
		return dst, err
	}
	dst = msgp.AppendArrayHeader(dst, uint32(v.Len()))
	for i := range v.Len() {
		var err error
		if dst, err = n.element.append(dst, v.Index(i), in.inside()); err != nil {
			return dst, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return dst, nil
}

func (n *listNode) decode(src []byte, v reflect.Value, in place) ([]byte, error) {
	count, rest, err := msgpack.ReadList(src, in.depth)
	if err != nil {
		return src, err
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, msgpack.FirstRoom(count)))
	for i := range count {
		v.Grow(1)
		v.SetLen(i + 1)
		if rest, err = n.element.decode(rest, v.Index(i), in.inside()); err != nil {
			return src, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return rest, nil
}

type mapNode struct{ key, element node }

func (n *mapNode) append(dst []byte, v reflect.Value, in place) ([]byte, error) {
	if err := msgpack.CheckDepth(in.depth); err != nil {
		return dst, err
	}
	dst = msgp.AppendMapHeader(dst, uint32(v.Len()))
	for pairs := v.MapRange(); pairs.Next(); {
		var err error
		if dst, err = n.key.append(dst, pairs.Key(), in.inside()); err != nil {
			return dst, fmt.Errorf("key %q: %w", fmt.Sprint(pairs.Key()), err)
		}
		if dst, err = n.element.append(dst, pairs.Value(), in.inside()); err != nil {
			return dst, fmt.Errorf("value of key %q: %w", fmt.Sprint(pairs.Key()), err)
		}
	}
	return dst, nil
}

func (n *mapNode) decode(src []byte, v reflect.Value, in place) ([]byte, error) {
	count, rest, err := msgpack.ReadMap(src, in.depth)
	if err != nil {
		return src, err
	}
	t, pairs := v.Type(), rest
	v.Set(reflect.MakeMapWithSize(t, msgpack.FirstRoom(count)))
	key, element := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
	for i := range count {
		if rest, err = n.key.decode(rest, key, in.inside()); err != nil {
			return src, fmt.Errorf("key %d: %w", i, err)
		}
		if rest, err = n.element.decode(rest, element, in.inside()); err != nil {
			return src, fmt.Errorf("value of key %.80q: %w", fmt.Sprint(key), err)
		}
		v.SetMapIndex(key, element)
	}
	if v.Len() < count {
		// Checking each key as it comes would cost time even if no key occurs twice.
		return src, n.repeated(pairs, key, in.inside())
	}
	return rest, nil
}

// repeated returns an error that names the key that occurs twice, among pairs that have
// been decoded.
func (n *mapNode) repeated(src []byte, key reflect.Value, in place) (err error) {
	for seen := map[any]bool{}; ; seen[key.Interface()] = true {
		if src, err = n.key.decode(src, key, in); err != nil {
			return err
		}
		if seen[key.Interface()] {
			return msgpack.Repeated(key)
		}
		if src, err = msgpack.Skip(src, in.depth); err != nil {
			return err
		}
	}
}

type optionalNode struct{ element node }

func (n *optionalNode) append(dst []byte, v reflect.Value, in place) ([]byte, error) {
	if v.IsNil() {
		return msgp.AppendNil(dst), nil
	}
	return n.element.append(dst, v.Elem(), in)
}

func (n *optionalNode) decode(src []byte, v reflect.Value, in place) ([]byte, error) {
	if msgp.IsNil(src) {
		v.SetZero()
		return src[1:], nil
	}
	value := reflect.New(v.Type().Elem())
	v.Set(value)
	return n.element.decode(src, value.Elem(), in)
}

type structNode struct {
	fields []fieldNode
	byName map[string]int
	// lenient means that unknown fields are skipped.
	lenient bool
}

type fieldNode struct {
	name []byte
	// key is the name, encoded in MessagePack.
	key   []byte
	index []int
	node  node
}

func (b *planBuilder) buildStruct(t reflect.Type) (node, error) {
	n := &structNode{byName: map[string]int{}, lenient: b.options&IgnoreUnknownFields != 0}
	b.nodes[t] = n
	fields, err := schema.GoFields(t)
	if err != nil {
		return nil, err
	}
	for i, field := range fields {
		made, err := b.build(field.Type)
		if err != nil {
			return nil, err
		}
		n.byName[field.Name] = i
		n.fields = append(n.fields, fieldNode{name: []byte(field.Name),
			key: msgp.AppendString(nil, field.Name), index: field.Index, node: made})
	}
	return n, nil
}

func (n *structNode) append(dst []byte, v reflect.Value, in place) ([]byte, error) {
	if err := msgpack.CheckDepth(in.depth); err != nil {
		return dst, err
	}
	dst = msgp.AppendMapHeader(dst, uint32(len(n.fields)))
	for i := range n.fields {
		field := &n.fields[i]
		var err error
		if dst, err = field.node.append(append(dst, field.key...), field.in(v), in.inside()); err != nil {
			return dst, fmt.Errorf("field %s: %w", field.name, err)
		}
	}
	return dst, nil
}

func (f *fieldNode) in(v reflect.Value) reflect.Value {
	for _, i := range f.index {
		v = v.Field(i)
	}
	return v
}

func (n *structNode) decode(src []byte, v reflect.Value, in place) ([]byte, error) {
	count, rest, err := msgpack.ReadStruct(src, in.depth)
	if err != nil {
		return src, err
	}
	v.SetZero()
	var came fieldSet
	for i := range count {
		name, after, err := msgpack.ReadText(rest)
		if err != nil {
			return src, fmt.Errorf("name of field %d: %w", i, err)
		}
		at := n.find(name, i)
		if at >= 0 && !came.add(at) {
			return src, fmt.Errorf("field %s is there twice", name)
		}
		if rest, err = n.decodeField(at, name, after, v, in.inside()); err != nil {
			return src, err
		}
	}
	return rest, nil
}

// A fieldSet is a set of the numbers of fields. The first 64 cost no allocation.
type fieldSet struct {
	first uint64
	more  map[int]bool
}

// add adds a field, and reports whether it was new.
func (s *fieldSet) add(at int) bool {
	if at >= 64 {
		if s.more[at] {
			return false
		}
		if s.more == nil {
			s.more = map[int]bool{}
		}
		s.more[at] = true
		return true
	}
	bit := uint64(1) << at
	is := s.first & bit
	s.first |= bit
	return is == 0
}

func (n *structNode) names() []byte {
	var names [][]byte
	for i := range n.fields {
		names = append(names, n.fields[i].name)
	}
	return bytes.Join(names, []byte(", "))
}

// find returns the number of the field called name, or a negative number. guess is
// where the field is if the sender keeps the order of the schema.
func (n *structNode) find(name []byte, guess int) int {
	if guess < len(n.fields) && bytes.Equal(n.fields[guess].name, name) {
		return guess
	}
	if at, known := n.byName[string(name)]; known {
		return at
	}
	return -1
}

func (n *structNode) decodeField(at int, name, src []byte, v reflect.Value, in place) ([]byte, error) {
	if at < 0 {
		if n.lenient {
			return msgpack.Skip(src, in.depth)
		}
		return src, fmt.Errorf("there is no field %.80q; there are %s", name, n.names())
	}
	field := &n.fields[at]
	rest, err := field.node.decode(src, field.in(v), in)
	if err != nil {
		return src, fmt.Errorf("field %s: %w", name, err)
	}
	return rest, nil
}

// A resultsNode is a struct whose fields may also come as a list, in their order.
type resultsNode struct{ *structNode }

func (n resultsNode) decode(src []byte, v reflect.Value, in place) ([]byte, error) {
	if msgp.NextType(src) != msgp.ArrayType {
		return n.structNode.decode(src, v, in)
	}
	count, rest, err := msgpack.ReadList(src, in.depth)
	if err == nil && count != len(n.fields) {
		err = fmt.Errorf("%d results came where %d are expected", count, len(n.fields))
	}
	if err != nil {
		return src, err
	}
	v.SetZero()
	for i := range n.fields {
		if rest, err = n.decodeField(i, n.fields[i].name, rest, v, in.inside()); err != nil {
			return src, err
		}
	}
	return rest, nil
}
