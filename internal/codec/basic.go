package codec

import (
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/nearcall/nearcall/internal/memory"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/tinylib/msgp/msgp"
)

// basicNode returns the node of a type that holds no other, or nil for any other type. The
// memory of a named type is that of its underlying type.
func basicNode(t reflect.Type) node {
	if t == reflect.TypeFor[time.Time]() {
		return timeNode{}
	}
	if file := fileNodeOf(t); file != nil {
		return file
	}
	switch t.Kind() {
	case reflect.Bool:
		return boolNode{}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return signedNodeOf(t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return unsignedNodeOf(t.Bits())
	case reflect.Float32:
		return float32Node{}
	case reflect.Float64:
		return float64Node{}
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

func signedNodeOf(bits int) node {
	switch bits {
	case 8:
		return signedNode[int8]{}
	case 16:
		return signedNode[int16]{}
	case 32:
		return signedNode[int32]{}
	}
	return signedNode[int64]{}
}

func unsignedNodeOf(bits int) node {
	switch bits {
	case 8:
		return unsignedNode[uint8]{}
	case 16:
		return unsignedNode[uint16]{}
	case 32:
		return unsignedNode[uint32]{}
	}
	return unsignedNode[uint64]{}
}

type boolNode struct{}

func (boolNode) append(dst []byte, m memory.Memory, _ place) ([]byte, error) {
	return msgp.AppendBool(dst, *memory.As[bool](m)), nil
}

func (boolNode) decode(src []byte, m memory.Memory, _ place) (rest []byte, err error) {
	*memory.As[bool](m), rest, err = msgpack.ReadBool(src)
	return rest, err
}

func (boolNode) grow(m memory.Memory, kept, room int) { growList[bool](m, kept, room) }

type signedNode[T int8 | int16 | int32 | int64] struct{}

func (signedNode[T]) append(dst []byte, m memory.Memory, _ place) ([]byte, error) {
	return msgpack.AppendInt(dst, int64(*memory.As[T](m))), nil
}

func (signedNode[T]) decode(src []byte, m memory.Memory, _ place) ([]byte, error) {
	value, rest, err := msgpack.ReadInt(src, memory.BitsOf[T]())
	*memory.As[T](m) = T(value)
	return rest, err
}

func (signedNode[T]) grow(m memory.Memory, kept, room int) { growList[T](m, kept, room) }

func (signedNode[T]) appendAll(dst []byte, list memory.Memory) []byte {
	for _, value := range *memory.As[[]T](list) {
		dst = msgpack.AppendInt(dst, int64(value))
	}
	return dst
}

func (signedNode[T]) decodeAll(src []byte, list memory.Memory, from int) ([]byte, int, error) {
	elements := *memory.As[[]T](list)
	for i := from; i < len(elements); i++ {
		value, rest, err := msgpack.ReadInt(src, memory.BitsOf[T]())
		if err != nil {
			return src, i, err
		}
		elements[i], src = T(value), rest
	}
	return src, 0, nil
}

type unsignedNode[T uint8 | uint16 | uint32 | uint64] struct{}

func (unsignedNode[T]) append(dst []byte, m memory.Memory, _ place) ([]byte, error) {
	return msgpack.AppendUint(dst, uint64(*memory.As[T](m))), nil
}

func (unsignedNode[T]) decode(src []byte, m memory.Memory, _ place) ([]byte, error) {
	value, rest, err := msgpack.ReadUint(src, memory.BitsOf[T]())
	*memory.As[T](m) = T(value)
	return rest, err
}

func (unsignedNode[T]) grow(m memory.Memory, kept, room int) { growList[T](m, kept, room) }

func (unsignedNode[T]) appendAll(dst []byte, list memory.Memory) []byte {
	for _, value := range *memory.As[[]T](list) {
		dst = msgpack.AppendUint(dst, uint64(value))
	}
	return dst
}

func (unsignedNode[T]) decodeAll(src []byte, list memory.Memory, from int) ([]byte, int, error) {
	elements := *memory.As[[]T](list)
	for i := from; i < len(elements); i++ {
		value, rest, err := msgpack.ReadUint(src, memory.BitsOf[T]())
		if err != nil {
			return src, i, err
		}
		elements[i], src = T(value), rest
	}
	return src, 0, nil
}

type float32Node struct{}

func (float32Node) append(dst []byte, m memory.Memory, _ place) ([]byte, error) {
	return msgp.AppendFloat32(dst, *memory.As[float32](m)), nil
}

func (float32Node) decode(src []byte, m memory.Memory, _ place) (rest []byte, err error) {
	*memory.As[float32](m), rest, err = readFloat32(src)
	return rest, err
}

func (float32Node) grow(m memory.Memory, kept, room int) { growList[float32](m, kept, room) }

// readFloat32 rounds to the nearest float32, and refuses numbers that are beyond the
// largest one.
func readFloat32(src []byte) (float32, []byte, error) {
	value, rest, err := msgpack.ReadFloat(src)
	if err == nil && !fitsFloat32(value) {
		return 0, src, fmt.Errorf("%v does not fit float32", value)
	}
	return float32(value), rest, err
}

func fitsFloat32(value float64) bool {
	return !math.IsInf(float64(float32(value)), 0) || math.IsInf(value, 0)
}

type float64Node struct{}

func (float64Node) append(dst []byte, m memory.Memory, _ place) ([]byte, error) {
	return msgp.AppendFloat64(dst, *memory.As[float64](m)), nil
}

func (float64Node) decode(src []byte, m memory.Memory, _ place) (rest []byte, err error) {
	*memory.As[float64](m), rest, err = msgpack.ReadFloat(src)
	return rest, err
}

func (float64Node) grow(m memory.Memory, kept, room int) { growList[float64](m, kept, room) }

func (float64Node) appendAll(dst []byte, list memory.Memory) []byte {
	for _, value := range *memory.As[[]float64](list) {
		dst = msgp.AppendFloat64(dst, value)
	}
	return dst
}

func (float64Node) decodeAll(src []byte, list memory.Memory, from int) ([]byte, int, error) {
	elements := *memory.As[[]float64](list)
	for i := from; i < len(elements); i++ {
		value, rest, err := msgpack.ReadFloat(src)
		if err != nil {
			return src, i, err
		}
		elements[i], src = value, rest
	}
	return src, 0, nil
}

type stringNode struct{}

func (stringNode) append(dst []byte, m memory.Memory, _ place) ([]byte, error) {
	return msgpack.AppendText(dst, *memory.As[string](m))
}

func (stringNode) decode(src []byte, m memory.Memory, _ place) ([]byte, error) {
	text, rest, err := msgpack.ReadText(src)
	*memory.As[string](m) = string(text)
	return rest, err
}

func (stringNode) grow(m memory.Memory, kept, room int) { growList[string](m, kept, room) }

type bytesNode struct{ alias bool }

func (bytesNode) append(dst []byte, m memory.Memory, in place) ([]byte, error) {
	return in.beside.appendBytes(dst, *memory.As[[]byte](m)), nil
}

func (n bytesNode) decode(src []byte, m memory.Memory, in place) (rest []byte, err error) {
	to := memory.As[[]byte](m)
	if n.alias {
		*to, rest, err = msgpack.ReadBytes(src)
	} else {
		*to, rest, err = in.beside.readBytesInto(*to, src)
	}
	return rest, err
}

type timeNode struct{}

func (timeNode) append(dst []byte, m memory.Memory, _ place) ([]byte, error) {
	return msgpack.AppendTime(dst, *memory.As[time.Time](m)), nil
}

func (timeNode) decode(src []byte, m memory.Memory, _ place) (rest []byte, err error) {
	*memory.As[time.Time](m), rest, err = msgpack.ReadTime(src)
	return rest, err
}

func (timeNode) grow(m memory.Memory, kept, room int) { growList[time.Time](m, kept, room) }

func (bytesNode) grow(m memory.Memory, kept, room int) { growList[[]byte](m, kept, room) }
