package codec

import (
	"reflect"

	"github.com/nearcall/nearcall/internal/memory"
	"github.com/tinylib/msgp/msgp"
)

type optionalNode struct {
	of      reflect.Type
	element node
}

func (n *optionalNode) append(dst []byte, m memory.Memory, in place) ([]byte, error) {
	value, some := m.Target()
	if !some {
		return msgp.AppendNil(dst), nil
	}
	return n.element.append(dst, value, in)
}

func (n *optionalNode) decode(src []byte, m memory.Memory, in place) ([]byte, error) {
	if msgp.IsNil(src) {
		m.Point(memory.Memory{})
		return src[1:], nil
	}
	if err := in.beside.MeterOf().Take(1, n.of.Size()); err != nil {
		return src, err
	}
	value := memory.New(n.of)
	m.Point(value)
	in.zeroed = true
	return n.element.decode(src, value, in)
}
