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
}

// A storage knows how to make room in a list. The nodes of most basic types do.
type storage interface {
	// grow replaces the list by one with room elements. It keeps the first ones of the list
	// that was there, and the others are zero.
	grow(m memory.Memory, kept, room int)
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
	return n
}

func (n *listNode) append(dst []byte, m memory.Memory, in place) ([]byte, error) {
	if err := msgpack.CheckDepth(in.depth); err != nil {
		return dst, err
	}
	first, count := m.Elements()
	dst = msgp.AppendArrayHeader(dst, uint32(count))
	for i := range count {
		var err error
		if dst, err = n.element.append(dst, first.Behind(uintptr(i)*n.bytes), in.inside()); err != nil {
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
	room := msgpack.FirstRoom(count)
	n.storage.grow(m, 0, room)
	first, _ := m.Elements()
	for at := range count {
		if at == room {
			// A sender may claim many and send bad ones, so as many again are made room for.
			room = min(count, 2*room)
			n.storage.grow(m, at, room)
			first, _ = m.Elements()
		}
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
