package codec

import (
	"encoding/json"
	"fmt"

	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/wire"
)

// RequestValues returns the arguments of a payload as values of the schema's type any.
func RequestValues(by wire.Codec, payload []byte) ([]any, error) {
	switch by {
	case wire.CodecRaw:
		return []any{payload}, nil
	case wire.CodecJSON:
		var values []any
		err := json.Unmarshal(payload, &values)
		return values, err
	case wire.CodecMessagePack, wire.CodecPacked:
		return messagePackValues(payload)
	}
	return nil, fmt.Errorf("values in %v are not known", by)
}

func messagePackValues(payload []byte) ([]any, error) {
	count, rest, err := msgpack.ReadList(payload, 0)
	if err != nil {
		return nil, err
	}
	values := make([]any, count)
	for i := range values {
		if values[i], rest, err = msgpack.ReadAny(rest, 0); err != nil {
			return nil, fmt.Errorf("value %d: %w", i+1, err)
		}
	}
	return values, nil
}

// ReplyValues returns the one value of a payload, which is a list where a function has
// several results; none of an empty payload that is not raw.
func ReplyValues(by wire.Codec, payload []byte) ([]any, error) {
	var value any
	var err error
	switch {
	case by == wire.CodecRaw:
		value = payload
	case len(payload) == 0:
		return nil, nil
	case by == wire.CodecJSON:
		err = json.Unmarshal(payload, &value)
	case by == wire.CodecMessagePack || by == wire.CodecPacked:
		value, _, err = msgpack.ReadAny(payload, 0)
	default:
		err = fmt.Errorf("values in %v are not known", by)
	}
	if err != nil {
		return nil, err
	}
	return []any{value}, nil
}
