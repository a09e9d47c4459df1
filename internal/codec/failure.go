package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
	"github.com/tinylib/msgp/msgp"
)

// AppendFailure appends the payload of an ERROR frame. It always succeeds: a
// message is cut to limit error_message_bytes_max, and a detail whose value
// cannot be encoded says so in its place.
func AppendFailure(dst []byte, failure *status.Error) []byte {
	dst = msgp.AppendArrayHeader(dst, 2)
	dst = msgp.AppendString(dst, CutMessage(failure.Message))
	dst = msgp.AppendArrayHeader(dst, uint32(len(failure.Details)))
	for _, detail := range failure.Details {
		dst = msgp.AppendArrayHeader(dst, 2)
		dst = msgp.AppendString(dst, strings.ToValidUTF8(detail.Type, "\uFFFD"))
		dst = appendDetail(dst, detail.Value)
	}
	return dst
}

func appendDetail(dst []byte, value any) []byte {
	out, err := dst, checkDetail(value)
	if err == nil {
		out, err = AppendValue(dst, value)
	}
	if err != nil {
		return msgp.AppendString(dst, notEncoded(err))
	}
	return out
}

// checkDetail refuses types that no value of type any may have. A caller knows no description
// of a detail.
func checkDetail(value any) error {
	if value == nil {
		return nil
	}
	return schema.CheckAny(reflect.TypeOf(value))
}

func notEncoded(err error) string {
	return cutText("this detail cannot be encoded: "+err.Error(), wire.ErrorMessageBytesMax)
}

// AppendDetailJSON appends the value of a detail as JSON by the rules of the schema, so that none
// of its methods run, or says in its place why it cannot be encoded.
func AppendDetailJSON(dst []byte, value any) []byte {
	out, _, err := AppendJSON(dst, schema.Type{Kind: schema.Any}, nil, appendDetail(nil, value))
	if err != nil {
		text, _ := json.Marshal(notEncoded(err))
		return append(dst, text...)
	}
	return out
}

// CutMessage makes an error's message valid UTF-8 within its limit.
func CutMessage(text string) string { return cutText(text, wire.ErrorMessageBytesMax) }

// cutText makes text valid UTF-8 of at most that many bytes.
func cutText(text string, bytesMax int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= bytesMax {
		return text
	}
	for bytesMax > 0 && !utf8.RuneStart(text[bytesMax]) {
		bytesMax--
	}
	return text[:bytesMax]
}

// DecodeFailure reads the payload of an ERROR frame. Nothing of the result
// aliases payload.
func DecodeFailure(payload []byte) (message string, details []status.Detail, err error) {
	rest, err := openTuple(payload)
	if err != nil {
		return "", nil, fmt.Errorf("payload of an error: %w", err)
	}
	text, rest, err := msgpack.ReadText(rest)
	if err != nil {
		return "", nil, fmt.Errorf("message of an error: %w", err)
	}
	details, rest, err = decodeDetails(rest)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes follow them", len(rest))
	}
	if err != nil {
		return "", nil, fmt.Errorf("details of an error: %w", err)
	}
	return string(text), details, nil
}

func decodeDetails(src []byte) ([]status.Detail, []byte, error) {
	count, rest, err := msgpack.ReadList(src, 0)
	if err != nil {
		return nil, src, err
	}
	var details []status.Detail
	for range count {
		if rest, err = openTuple(rest); err != nil {
			return nil, src, err
		}
		name, after, err := msgpack.ReadText(rest)
		if err != nil {
			return nil, src, err
		}
		detail := status.Detail{Type: string(name)}
		if detail.Value, rest, err = msgpack.ReadAny(after, 0); err != nil {
			return nil, src, err
		}
		details = append(details, detail)
	}
	return details, rest, nil
}

// openTuple passes the header of an array of two.
func openTuple(src []byte) ([]byte, error) {
	count, rest, err := msgpack.ReadList(src, 0)
	if err == nil && count != 2 {
		err = errors.New("an array of two is expected")
	}
	return rest, err
}
