package codec

import (
	"fmt"

	"github.com/nearcall/nearcall/internal/memory"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/tinylib/msgp/msgp"
)

// An anyMapNode is a map from string to any, as textMapNode is one to a basic type. What it
// holds may hold more, so its values have a place.
type anyMapNode struct{ plans *dynamicPlans }

func (n anyMapNode) append(dst []byte, m memory.Memory, in place) ([]byte, error) {
	if err := msgpack.CheckDepth(in.depth); err != nil {
		return dst, err
	}
	all, other := *memory.As[map[string]any](m), n.plans.appender(in.beside)
	dst = msgp.AppendMapHeader(dst, uint32(len(all)))
	for key, value := range all {
		err := msgpack.CheckSize(dst, in.beside.bytesMax())
		if err != nil {
			return dst, err
		}
		if dst, err = msgpack.AppendText(dst, key); err != nil {
			return dst, fmt.Errorf("key %q: %w", key, err)
		}
		if dst, err = msgpack.AppendAny(dst, value, in.depth+1, other); err != nil {
			return dst, fmt.Errorf("value of key %q: %w", key, err)
		}
	}
	return dst, nil
}

func (n anyMapNode) decode(src []byte, m memory.Memory, in place) ([]byte, error) {
	count, rest, err := msgpack.ReadMap(src, in.depth)
	if err == nil {
		err = in.beside.MeterOf().TakeTextMap(count)
	}
	if err != nil {
		return src, err
	}
	made, pairs := make(map[string]any, msgpack.FirstRoom(count)), rest
	*memory.As[map[string]any](m) = made
	for i := range count {
		text, after, err := msgpack.ReadText(rest)
		if err != nil {
			return src, fmt.Errorf("key %d: %w", i, err)
		}
		key := string(text)
		if made[key], rest, err = msgpack.ReadAnyBy(in.beside.MeterOf(), after, in.depth+1); err != nil {
			return src, fmt.Errorf("value of key %.80q: %w", key, err)
		}
	}
	if len(made) < count {
		return src, repeatedText(pairs, in.inside())
	}
	return rest, nil
}
