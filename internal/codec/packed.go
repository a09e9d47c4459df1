package codec

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/nearcall/nearcall/internal/memory"
	"github.com/nearcall/nearcall/internal/msgpack"
)

// A packedNode is a list of elements of one size, which may travel as one block. It takes
// such a list in both forms.
type packedNode struct {
	*listNode
	of msgpack.Element
	// packs says that lists are sent as blocks, if that is worth it.
	packs bool
	// native says that a block is what the memory of a slice is.
	native bool
	// widens says that blocks of other elements are taken as well.
	widens bool
}

// An expandingNode is a list that never is a block, and takes one for the list that it stands for.
type expandingNode struct{ *listNode }

func (n expandingNode) decode(src []byte, m memory.Memory, in place) ([]byte, error) {
	if !msgpack.IsPacked(src) {
		return n.listNode.decode(src, m, in)
	}
	list, rest, err := msgpack.ReadPacked(src, in.depth)
	if err != nil {
		return src, err
	}
	if _, err := n.listNode.decode(list.AppendPlain(nil), m, in); err != nil {
		return src, err
	}
	return rest, nil
}

// packable returns the node of a list if its elements have one size, or nil.
func (b *planBuilder) packable(t reflect.Type, element node) node {
	of := packedElement(t.Elem())
	if of == 0 {
		return nil
	}
	b.packs = true
	native := littleEndian() && int(t.Elem().Size()) == of.Bytes()
	return &packedNode{listNode: newListNode(t, element), of: of, packs: native && b.options&PackLists != 0, native: native, widens: b.options&WidenLists != 0}
}

// packedElement returns what a block calls the type, or 0 if no list of it can be one.
func packedElement(t reflect.Type) msgpack.Element {
	switch t.Kind() {
	case reflect.Bool:
		return msgpack.ElementBool
	case reflect.Int8:
		return msgpack.ElementInt8
	case reflect.Int16:
		return msgpack.ElementInt16
	case reflect.Int32:
		return msgpack.ElementInt32
	case reflect.Int, reflect.Int64:
		return msgpack.ElementInt64
	case reflect.Uint16:
		return msgpack.ElementUint16
	case reflect.Uint32:
		return msgpack.ElementUint32
	case reflect.Uint, reflect.Uint64:
		return msgpack.ElementUint64
	case reflect.Float32:
		return msgpack.ElementFloat32
	case reflect.Float64:
		return msgpack.ElementFloat64
	}
	return 0
}

// littleEndian reports whether this machine has the byte order of a block. Others send
// arrays and expand the blocks that they get.
func littleEndian() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 }

func (n *packedNode) append(dst []byte, m memory.Memory, in place) ([]byte, error) {
	if !n.packs {
		return n.listNode.append(dst, m, in)
	}
	first, count := m.Elements()
	list := msgpack.Packed{Element: n.of, Data: first.Bytes(count * int(n.bytes))}
	if !list.IsWorthPacking() {
		return n.listNode.append(dst, m, in)
	}
	if err := msgpack.CheckDepth(in.depth); err != nil {
		return dst, err
	}
	if !in.beside.gathers(list.Data) {
		dst = slices.Grow(dst, len(list.Data)+packedOverhead)
	}
	return in.beside.appendBlock(msgpack.AppendPackedHead(dst, n.of, len(list.Data)), list.Data), nil
}

// packedOverhead is room for what stands before the elements of a block.
const packedOverhead = 16

func (n *packedNode) decode(src []byte, m memory.Memory, in place) ([]byte, error) {
	if !msgpack.IsPacked(src) {
		return n.listNode.decode(src, m, in)
	}
	list, rest, err := msgpack.ReadPacked(src, in.depth)
	if err != nil {
		return src, err
	}
	switch {
	case list.Element != n.of && n.widens:
		_, err = n.listNode.decode(list.AppendPlain(nil), m, in)
	case list.Element != n.of:
		return src, fmt.Errorf("a packed list of %v came where a list of %v is expected", list.Element, n.of)
	case len(list.Data) == 0:
		m.SetEmpty()
	case n.native:
		elements := in.beside.elements(m, list.Data, int(n.bytes))
		if n.of == msgpack.ElementBool && in.beside.reuses() {
			onlyBools(elements)
		}
		m.SetElements(elements, int(n.bytes))
	default:
		_, err = n.listNode.decode(list.AppendPlain(nil), m, in)
	}
	return rest, err
}

// onlyBools makes bools of bytes that were some when ReadPacked looked. A result that is
// reused may be decoded from memory that its sender changes.
func onlyBools(elements []byte) {
	for i := range elements {
		elements[i] &= 1
	}
}

// Packs reports whether values of the type may hold lists that can be sent as blocks.
func (p *Plan) Packs() bool { return p.packs }

// Packs reports whether values of the type may hold lists that can be sent as blocks.
func (c *Codec[T]) Packs() bool { return c.plan != nil && c.plan.packs }

// AppendPacking is AppendValueWith, except that lists may be sent as blocks. packs reports
// whether the type of the value has such lists.
func AppendPacking(beside *Beside, dst []byte, value any) (out []byte, packs bool, err error) {
	if !mayPack(value) {
		out, err = AppendValueWith(beside, dst, value)
		return out, false, err
	}
	plan, err := NewPlan(reflect.TypeOf(value), PackLists)
	if err != nil {
		return dst, false, err
	}
	out, err = plan.AppendWith(beside, dst, reflect.ValueOf(value))
	return out, plan.packs, err
}

// mayPack tells values apart for which no plan is needed.
func mayPack(value any) bool {
	switch value.(type) {
	case nil, []byte, time.Time, []any, map[string]any, map[int64]any:
		return false
	}
	switch reflect.TypeOf(value).Kind() {
	case reflect.Slice, reflect.Map, reflect.Struct, reflect.Pointer:
		return true
	}
	return false
}
