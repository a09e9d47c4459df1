package codec

import (
	"fmt"
	"reflect"

	"github.com/nearcall/nearcall/internal/memory"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/tinylib/msgp/msgp"
)

type listNode struct {
	element node
	bytes   uintptr // of an element
	storage storage
	numbers numbers // nil for elements that are no integers or floats
}

// A storage knows how to make room in a list. The nodes of most basic types do.
type storage interface {
	// grow replaces the list by one with room elements. It keeps the first ones of the list
	// that was there, and the others are zero.
	grow(m memory.Memory, kept, room int)
}

// numbers is a node whose lists are encoded and decoded without a call for each element.
type numbers interface {
	appendAll(dst []byte, list memory.Memory) []byte
	// decodeAll decodes the elements of the list from the one with number from on. If one
	// cannot be decoded, it returns the number of that one.
	decodeAll(src []byte, list memory.Memory, from int) (rest []byte, failed int, err error)
}

func growList[T any](m memory.Memory, kept, room int) {
	list := memory.As[[]T](m)
	grown := make([]T, room)
	copy(grown, (*list)[:kept])
	*list = grown
}

// A reflectedStorage is the storage of a list of any type.
type reflectedStorage struct{ list reflect.Type }

func (s reflectedStorage) grow(m memory.Memory, kept, room int) {
	if kept == 0 {
		m.SetEmpty()
	}
	list := m.Value(s.list)
	list.Grow(room - kept)
	list.SetLen(room)
}

func newListNode(t reflect.Type, element node) *listNode {
	n := &listNode{element: element, bytes: t.Elem().Size(), storage: reflectedStorage{t}}
	if known, ok := element.(storage); ok {
		n.storage = known
	}
	n.numbers, _ = element.(numbers)
	return n
}

func (n *listNode) append(dst []byte, m memory.Memory, in place) ([]byte, error) {
	if err := msgpack.CheckDepth(in.depth); err != nil {
		return dst, err
	}
	first, count := m.Elements()
	dst = msgp.AppendArrayHeader(dst, uint32(count))
	if n.numbers != nil {
		return n.numbers.appendAll(dst, m), nil
	}
	in = in.inside()
	for i := range count {
		err := msgpack.CheckSize(dst, in.beside.bytesMax())
		if err != nil {
			return dst, err
		}
		if dst, err = n.element.append(dst, first.Behind(uintptr(i)*n.bytes), in); err != nil {
			return dst, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return dst, nil
}

func (n *listNode) decode(src []byte, m memory.Memory, in place) ([]byte, error) {
	count, rest, err := msgpack.ReadList(src, in.depth)
	if err != nil {
		return src, err
	}
	rest, failed, err := n.decodeElements(rest, m, count, in.insideZeroed())
	if err != nil {
		return src, fmt.Errorf("element %d: %w", failed, err)
	}
	return rest, nil
}

// decodeElements makes a list of the count values that lie one behind the other in src. If
// one cannot be decoded, it returns the number of that one.
func (n *listNode) decodeElements(src []byte, m memory.Memory, count int, in place) (rest []byte, failed int, err error) {
	if err = in.beside.MeterOf().Take(count, n.bytes); err != nil {
		return src, 0, err
	}
	room := msgpack.FirstRoom(count)
	n.storage.grow(m, 0, room)
	for from := 0; ; {
		if n.numbers != nil {
			src, failed, err = n.numbers.decodeAll(src, m, from)
		} else {
			src, failed, err = n.decodeFrom(src, m, from, in)
		}
		if err != nil || room == count {
			return src, failed, err
		}
		// A sender may claim many and send bad ones, so room is made for as many again.
		from, room = room, min(count, 2*room)
		n.storage.grow(m, from, room)
	}
}

func (n *listNode) decodeFrom(src []byte, m memory.Memory, from int, in place) (rest []byte, failed int, err error) {
	first, count := m.Elements()
	for at := from; at < count; at++ {
		if src, err = n.element.decode(src, first.Behind(uintptr(at)*n.bytes), in); err != nil {
			return src, at, err
		}
	}
	return src, 0, nil
}

// A Rest decodes the further arguments of a variadic function into a list.
type Rest struct{ list *listNode }

// NewRest makes the Rest of a type of lists.
func NewRest(t reflect.Type, options ...Option) (*Rest, error) {
	if _, _, err := schema.FromGoType(t); err != nil {
		return nil, err
	}
	element, err := NewPlan(t.Elem(), options...)
	if err != nil {
		return nil, err
	}
	return &Rest{newListNode(t, element.root)}, nil
}

// Fill decodes count values that lie one behind the other in src into the list at m. If one
// cannot be decoded, Fill returns the number of that one.
func (r *Rest) Fill(beside *Beside, src []byte, m memory.Memory, count int) (rest []byte, failed int, err error) {
	return r.list.decodeElements(src, m, count, place{beside: beside, zeroed: true})
}
