package codec

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/nearcall/nearcall/internal/memory"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/tinylib/msgp/msgp"
)

type structNode struct {
	fields []fieldNode
	byName map[string]int
	// lenient means that unknown fields are skipped.
	lenient bool
	of      reflect.Type
}

type fieldNode struct {
	name []byte
	// key is the name, encoded in MessagePack. begin is what stands before the value: the key
	// and, if this is the first field, the header of the struct before it.
	key    []byte
	begin  []byte
	offset uintptr
	of     reflect.Type
	node   node
}

func (b *planBuilder) buildStruct(t reflect.Type) (node, error) {
	n := &structNode{byName: map[string]int{}, lenient: b.options&IgnoreUnknownFields != 0, of: t}
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
		key := msgp.AppendString(nil, field.Name)
		begin := key
		if i == 0 {
			begin = append(msgp.AppendMapHeader(nil, uint32(len(fields))), key...)
		}
		n.fields = append(n.fields, fieldNode{name: []byte(field.Name), key: key, begin: begin, offset: offsetOf(t, field.Index), of: field.Type, node: made})
	}
	return n, nil
}

// offsetOf returns where a field begins that an index leads to, through embedded structs.
func offsetOf(t reflect.Type, index []int) (offset uintptr) {
	for _, i := range index {
		field := t.Field(i)
		offset, t = offset+field.Offset, field.Type
	}
	return offset
}

func (n *structNode) append(dst []byte, m memory.Memory, in place) ([]byte, error) {
	if err := msgpack.CheckDepth(in.depth); err != nil {
		return dst, err
	}
	if err := msgpack.CheckSize(dst, in.beside.bytesMax()); err != nil {
		return dst, err
	}
	if len(n.fields) == 0 {
		return msgp.AppendMapHeader(dst, 0), nil
	}
	in = in.inside()
	for i := range n.fields {
		field := &n.fields[i]
		var err error
		if dst, err = field.node.append(append(dst, field.begin...), m.Behind(field.offset), in); err != nil {
			return dst, fmt.Errorf("field %s: %w", field.name, err)
		}
	}
	return dst, nil
}

func (n *structNode) decode(src []byte, m memory.Memory, in place) ([]byte, error) {
	count, rest, err := msgpack.ReadStruct(src, in.depth)
	if err != nil {
		return src, err
	}
	if in.beside.reuses() {
		return n.decodeAnew(rest, m, count, in.inside())
	}
	if !in.zeroed {
		n.clear(m)
	}
	in = in.insideZeroed()
	inOrder := 0
	for ; inOrder < count && inOrder < len(n.fields); inOrder++ {
		field := &n.fields[inOrder]
		if !bytes.HasPrefix(rest, field.key) {
			break
		}
		if rest, err = field.node.decode(rest[len(field.key):], m.Behind(field.offset), in); err != nil {
			return src, fmt.Errorf("field %s: %w", field.name, err)
		}
	}
	if inOrder < count {
		var came fieldSet
		if rest, err = n.decodeOthers(rest, m, inOrder, count, in, &came); err != nil {
			return src, err
		}
	}
	return rest, nil
}

// decodeAnew decodes count fields into a struct whose former values may be used, and makes
// the others zero.
func (n *structNode) decodeAnew(src []byte, m memory.Memory, count int, in place) ([]byte, error) {
	var came fieldSet
	rest, err := n.decodeOthers(src, m, 0, count, in, &came)
	if err != nil {
		return src, err
	}
	for i := range n.fields {
		if field := &n.fields[i]; came.add(i) {
			m.Behind(field.offset).Value(field.of).SetZero()
		}
	}
	return rest, nil
}

// decodeOthers decodes the fields that follow those that came in the order of the schema.
// It adds both to came.
func (n *structNode) decodeOthers(src []byte, m memory.Memory, inOrder, count int, in place, came *fieldSet) ([]byte, error) {
	for at := range inOrder {
		came.add(at)
	}
	for i := inOrder; i < count; i++ {
		at, name, rest, err := n.next(src, i)
		if err != nil {
			return src, fmt.Errorf("name of field %d: %w", i, err)
		}
		if at >= 0 && !came.add(at) {
			return src, fmt.Errorf("field %s is there twice", name)
		}
		if src, err = n.decodeField(at, name, rest, m, in); err != nil {
			return src, err
		}
	}
	return src, nil
}

// clear makes the struct zero, so that fields that do not come are.
func (n *structNode) clear(m memory.Memory) { m.Value(n.of).SetZero() }

// next reads the name of a field. It returns the number of the field, or a negative number
// if there is no such field. guess is where the field is if the sender keeps the order of
// the schema.
func (n *structNode) next(src []byte, guess int) (at int, name, rest []byte, err error) {
	if guess < len(n.fields) {
		if field := &n.fields[guess]; bytes.HasPrefix(src, field.key) {
			return guess, field.name, src[len(field.key):], nil
		}
	}
	name, rest, err = msgpack.ReadText(src)
	if at, known := n.byName[string(name)]; known {
		return at, name, rest, err
	}
	return -1, name, rest, err
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

func (n *structNode) decodeField(at int, name, src []byte, m memory.Memory, in place) ([]byte, error) {
	if at < 0 {
		if n.lenient {
			return msgpack.Skip(src, in.depth)
		}
		return src, fmt.Errorf("there is no field %.80q; there are %s", name, n.names())
	}
	field := &n.fields[at]
	rest, err := field.node.decode(src, m.Behind(field.offset), in)
	if err != nil {
		return src, fmt.Errorf("field %s: %w", name, err)
	}
	return rest, nil
}

// A resultsNode is a struct whose fields may also come as a list, in their order.
type resultsNode struct{ *structNode }

func (n resultsNode) decode(src []byte, m memory.Memory, in place) ([]byte, error) {
	if msgp.NextType(src) != msgp.ArrayType {
		return n.structNode.decode(src, m, in)
	}
	count, rest, err := msgpack.ReadList(src, in.depth)
	if err == nil && count != len(n.fields) {
		err = fmt.Errorf("%d results came where %d are expected", count, len(n.fields))
	}
	if err != nil {
		return src, err
	}
	inside := in.inside()
	if !in.beside.reuses() {
		inside = in.insideZeroed()
		if !in.zeroed {
			n.clear(m)
		}
	}
	for i := range n.fields {
		if rest, err = n.decodeField(i, n.fields[i].name, rest, m, inside); err != nil {
			return src, err
		}
	}
	return rest, nil
}
