package codec

import (
	"fmt"
	"reflect"

	"github.com/nearcall/nearcall/internal/memory"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/tinylib/msgp/msgp"
)

// A textMapNode is a map of one of the types that most maps are of. The compiler knows them,
// so that package reflect is not needed for each pair.
type textMapNode[V any] struct {
	read func(src []byte) (V, []byte, error)
	add  func(dst []byte, value V) ([]byte, error)
}

// textMapNodeOf returns the node of a map from string to a basic type or to any, or nil for
// any other type.
func textMapNodeOf(t reflect.Type) node {
	if t.Key() != reflect.TypeFor[string]() {
		return nil
	}
	switch t.Elem() {
	case reflect.TypeFor[string]():
		return textMapNode[string]{readText, msgpack.AppendText}
	case reflect.TypeFor[int]():
		return textMapNode[int]{readSigned[int], addSigned[int]}
	case reflect.TypeFor[int64]():
		return textMapNode[int64]{readSigned[int64], addSigned[int64]}
	case reflect.TypeFor[float64]():
		return textMapNode[float64]{msgpack.ReadFloat, infallible(msgp.AppendFloat64)}
	case reflect.TypeFor[bool]():
		return textMapNode[bool]{msgpack.ReadBool, infallible(msgp.AppendBool)}
	case reflect.TypeFor[any]():
		return anyMapNode{plans: &dynamicPlans{}}
	}
	return nil
}

func readText(src []byte) (string, []byte, error) {
	text, rest, err := msgpack.ReadText(src)
	return string(text), rest, err
}

func readSigned[T int | int64](src []byte) (T, []byte, error) {
	value, rest, err := msgpack.ReadInt(src, memory.BitsOf[T]())
	return T(value), rest, err
}

func addSigned[T int | int64](dst []byte, value T) ([]byte, error) {
	return msgpack.AppendInt(dst, int64(value)), nil
}

func infallible[V any](add func([]byte, V) []byte) func([]byte, V) ([]byte, error) {
	return func(dst []byte, value V) ([]byte, error) { return add(dst, value), nil }
}

func (n textMapNode[V]) append(dst []byte, m memory.Memory, in place) ([]byte, error) {
	if err := msgpack.CheckDepth(in.depth); err != nil {
		return dst, err
	}
	all := *memory.As[map[string]V](m)
	dst = msgp.AppendMapHeader(dst, uint32(len(all)))
	for key, value := range all {
		var err error
		if dst, err = msgpack.AppendText(dst, key); err != nil {
			return dst, fmt.Errorf("key %q: %w", key, err)
		}
		if dst, err = n.add(dst, value); err != nil {
			return dst, fmt.Errorf("value of key %q: %w", key, err)
		}
	}
	return dst, nil
}

func (n textMapNode[V]) decode(src []byte, m memory.Memory, in place) ([]byte, error) {
	count, rest, err := msgpack.ReadMap(src, in.depth)
	if err == nil {
		err = in.beside.MeterOf().TakeTextMap(count)
	}
	if err != nil {
		return src, err
	}
	made, pairs := make(map[string]V, msgpack.FirstRoom(count)), rest
	*memory.As[map[string]V](m) = made
	for i := range count {
		text, after, err := msgpack.ReadText(rest)
		if err != nil {
			return src, fmt.Errorf("key %d: %w", i, err)
		}
		key := string(text)
		if made[key], rest, err = n.read(after); err != nil {
			return src, fmt.Errorf("value of key %.80q: %w", key, err)
		}
	}
	if len(made) < count {
		return src, repeatedText(pairs, in.inside())
	}
	return rest, nil
}

// repeatedText is mapNode.repeated for keys that are text.
func repeatedText(src []byte, in place) error {
	for seen := map[string]bool{}; ; {
		text, rest, err := msgpack.ReadText(src)
		if err != nil {
			return err
		}
		if seen[string(text)] {
			return msgpack.Repeated(string(text))
		}
		seen[string(text)] = true
		if src, err = msgpack.Skip(rest, in.depth); err != nil {
			return err
		}
	}
}
