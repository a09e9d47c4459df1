package codec

import (
	"fmt"
	"reflect"
	"strconv"
	"sync"

	"github.com/nearcall/nearcall/internal/memory"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/tinylib/msgp/msgp"
)

type mapNode struct {
	of           reflect.Type
	key, element node
	pairs        sync.Pool // of *pair
}

// A pair is where one key of a map lies with its value while both are encoded or decoded:
// what lies in a map has no address.
type pair struct {
	key, element     reflect.Value
	keyAt, elementAt memory.Memory
	all              reflect.MapIter
}

func newMapNode(t reflect.Type, key, element node) *mapNode {
	n := &mapNode{of: t, key: key, element: element}
	n.pairs.New = func() any {
		p := &pair{key: reflect.New(t.Key()).Elem(), element: reflect.New(t.Elem()).Elem()}
		p.keyAt, p.elementAt = memory.Of(p.key), memory.Of(p.element)
		return p
	}
	return n
}

// giveBack empties a pair, so that it keeps nothing alive. After an error it is not given
// back.
func (n *mapNode) giveBack(p *pair) {
	p.key.SetZero()
	p.element.SetZero()
	p.all.Reset(reflect.Value{})
	n.pairs.Put(p)
}

func (n *mapNode) append(dst []byte, m memory.Memory, in place) ([]byte, error) {
	if err := msgpack.CheckDepth(in.depth); err != nil {
		return dst, err
	}
	v := m.Value(n.of)
	dst = msgp.AppendMapHeader(dst, uint32(v.Len()))
	p := n.pairs.Get().(*pair)
	for p.all.Reset(v); p.all.Next(); {
		p.key.SetIterKey(&p.all)
		p.element.SetIterValue(&p.all)
		err := msgpack.CheckSize(dst, in.beside.bytesMax())
		if err != nil {
			return dst, err
		}
		if dst, err = n.key.append(dst, p.keyAt, in.inside()); err != nil {
			return dst, fmt.Errorf("key %q: %w", keyText(p.key), err)
		}
		if dst, err = n.element.append(dst, p.elementAt, in.inside()); err != nil {
			return dst, fmt.Errorf("value of key %q: %w", keyText(p.key), err)
		}
	}
	n.giveBack(p)
	return dst, nil
}

func (n *mapNode) decode(src []byte, m memory.Memory, in place) ([]byte, error) {
	count, rest, err := msgpack.ReadMap(src, in.depth)
	if err == nil {
		err = in.beside.MeterOf().TakeMap(count, n.of.Key().Size(), n.of.Elem().Size())
	}
	if err != nil {
		return src, err
	}
	made, pairs, p := reflect.MakeMapWithSize(n.of, msgpack.FirstRoom(count)), rest, n.pairs.Get().(*pair)
	m.Value(n.of).Set(made)
	for i := range count {
		if rest, err = n.key.decode(rest, p.keyAt, in.inside()); err != nil {
			return src, fmt.Errorf("key %d: %w", i, err)
		}
		if in.beside.reuses() {
			// What lies there is the value of the key before this one.
			p.element.SetZero()
		}
		if rest, err = n.element.decode(rest, p.elementAt, in.inside()); err != nil {
			return src, fmt.Errorf("value of key %.80q: %w", keyText(p.key), err)
		}
		made.SetMapIndex(p.key, p.element)
	}
	if made.Len() < count {
		// Checking each key as it comes would cost time even if no key occurs twice.
		return src, n.repeated(pairs, p, in.inside())
	}
	n.giveBack(p)
	return rest, nil
}

// repeated returns an error that names the key that occurs twice, among pairs that have
// been decoded.
func (n *mapNode) repeated(src []byte, p *pair, in place) (err error) {
	for seen := map[any]bool{}; ; seen[p.key.Interface()] = true {
		if src, err = n.key.decode(src, p.keyAt, in); err != nil {
			return err
		}
		if seen[p.key.Interface()] {
			return msgpack.Repeated(keyText(p.key))
		}
		if src, err = msgpack.Skip(src, in.depth); err != nil {
			return err
		}
	}
}

// keyText shows a key in an error, without its methods: they are code of the program's.
func keyText(key reflect.Value) string {
	switch {
	case key.Kind() == reflect.String:
		return key.String()
	case key.CanInt():
		return strconv.FormatInt(key.Int(), 10)
	case key.CanUint():
		return strconv.FormatUint(key.Uint(), 10)
	}
	return key.Type().String()
}
