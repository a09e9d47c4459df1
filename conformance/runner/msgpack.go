package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sort"
	"strings"
	"unicode/utf8"
)

// msgpackExtension is a decoded MessagePack extension value.
type msgpackExtension struct {
	kind int8
	data []byte
}

var errMsgpackShort = errors.New("MessagePack: cut off")

const msgpackDepthMax = 64

// appendMsgpack writes a JSON value in the shortest MessagePack format.
func appendMsgpack(out []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return append(out, 0xC0), nil
	case bool:
		if v {
			return append(out, 0xC3), nil
		}
		return append(out, 0xC2), nil
	case string:
		return append(appendMsgpackHead(out, stringHeads, len(v)), v...), nil
	case []byte:
		return append(appendMsgpackHead(out, binHeads, len(v)), v...), nil
	case uint64:
		return appendMsgpackUint(out, v), nil
	case json.Number:
		return appendMsgpackNumber(out, string(v))
	case []any:
		return appendMsgpackArray(out, v)
	case map[string]any:
		return appendMsgpackMap(out, v)
	}
	return nil, fmt.Errorf("MessagePack: cannot encode %T", value)
}

func appendMsgpackArray(out []byte, list []any) ([]byte, error) {
	out = appendMsgpackHead(out, arrayHeads, len(list))
	var err error
	for _, element := range list {
		if out, err = appendMsgpack(out, element); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func appendMsgpackMap(out []byte, pairs map[string]any) ([]byte, error) {
	keys := make([]string, 0, len(pairs))
	for key := range pairs {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	out = appendMsgpackHead(out, mapHeads, len(keys))
	for _, key := range keys {
		var err error
		out, _ = appendMsgpack(out, key)
		if out, err = appendMsgpack(out, pairs[key]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func appendMsgpackNumber(out []byte, text string) ([]byte, error) {
	if strings.ContainsAny(text, ".eE") {
		var number float64
		if _, err := fmt.Sscan(text, &number); err != nil {
			return nil, err
		}
		return binary.BigEndian.AppendUint64(append(out, 0xCB), math.Float64bits(number)), nil
	}
	if strings.HasPrefix(text, "-") {
		var number int64
		if _, err := fmt.Sscan(text, &number); err != nil {
			return nil, err
		}
		if number >= -32 {
			return append(out, byte(number)), nil
		}
		return binary.BigEndian.AppendUint64(append(out, 0xD3), uint64(number)), nil
	}
	var number uint64
	if _, err := fmt.Sscan(text, &number); err != nil {
		return nil, err
	}
	return appendMsgpackUint(out, number), nil
}

func appendMsgpackUint(out []byte, number uint64) []byte {
	switch {
	case number < 128:
		return append(out, byte(number))
	case number <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(out, 0xCE), uint32(number))
	}
	return binary.BigEndian.AppendUint64(append(out, 0xCF), number)
}

// msgpackHeads are the leading bytes of one family: the short form with its
// largest count (or 0), and the forms with 8, 16 and 32 bits of count (or 0).
type msgpackHeads struct{ short, shortMax, wide8, wide16, wide32 int }

var (
	stringHeads = msgpackHeads{0xA0, 31, 0xD9, 0xDA, 0xDB}
	binHeads    = msgpackHeads{0, -1, 0xC4, 0xC5, 0xC6}
	arrayHeads  = msgpackHeads{0x90, 15, 0, 0xDC, 0xDD}
	mapHeads    = msgpackHeads{0x80, 15, 0, 0xDE, 0xDF}
)

func appendMsgpackHead(out []byte, heads msgpackHeads, count int) []byte {
	switch {
	case count <= heads.shortMax:
		return append(out, byte(heads.short|count))
	case count <= math.MaxUint8 && heads.wide8 != 0:
		return append(out, byte(heads.wide8), byte(count))
	case count <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(out, byte(heads.wide16)), uint16(count))
	}
	return binary.BigEndian.AppendUint32(append(out, byte(heads.wide32)), uint32(count))
}

// decodeMsgpack reads one value that fills in exactly.
func decodeMsgpack(in []byte) (any, error) {
	r := &msgpackReader{in: in}
	value, err := r.value(0)
	if err == nil && len(r.in) > 0 {
		err = fmt.Errorf("MessagePack: %d bytes after the value", len(r.in))
	}
	return value, err
}

type msgpackReader struct{ in []byte }

func (r *msgpackReader) take(count uint64) ([]byte, error) {
	if count > uint64(len(r.in)) {
		return nil, errMsgpackShort
	}
	taken := r.in[:count]
	r.in = r.in[count:]
	return taken, nil
}

func (r *msgpackReader) number(bytes int) (uint64, error) {
	taken, err := r.take(uint64(bytes))
	var number uint64
	for _, b := range taken {
		number = number<<8 | uint64(b)
	}
	return number, err
}

func (r *msgpackReader) value(depth int) (any, error) {
	if depth > msgpackDepthMax {
		return nil, fmt.Errorf("MessagePack: nested deeper than %d", msgpackDepthMax)
	}
	head, err := r.number(1)
	if err != nil {
		return nil, err
	}
	switch {
	case head < 0x80:
		return head, nil
	case head < 0x90:
		return r.pairs(head&0x0F, depth)
	case head < 0xA0:
		return r.elements(head&0x0F, depth)
	case head < 0xC0:
		return r.text(head & 0x1F)
	case head >= 0xE0:
		return int64(int8(head)), nil
	}
	return r.wide(byte(head), depth)
}

func (r *msgpackReader) wide(head byte, depth int) (any, error) {
	switch {
	case head == 0xC0:
		return nil, nil
	case head == 0xC2 || head == 0xC3:
		return head == 0xC3, nil
	case head >= 0xC4 && head <= 0xC6:
		count, err := r.number(1 << (head - 0xC4))
		if err != nil {
			return nil, err
		}
		return r.take(count)
	case head == 0xCA:
		bits, err := r.number(4)
		return float64(math.Float32frombits(uint32(bits))), err
	case head == 0xCB:
		bits, err := r.number(8)
		return math.Float64frombits(bits), err
	case head >= 0xCC && head <= 0xCF:
		return r.number(1 << (head - 0xCC))
	case head >= 0xD0 && head <= 0xD3:
		return r.signed(1 << (head - 0xD0))
	case head >= 0xD4 && head <= 0xD8:
		return r.extension(1 << (head - 0xD4))
	}
	return r.counted(head, depth)
}

func (r *msgpackReader) counted(head byte, depth int) (any, error) {
	widths := map[byte]int{0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}
	count, err := r.number(widths[head])
	if err != nil {
		return nil, err
	}
	switch {
	case head >= 0xC7 && head <= 0xC9:
		return r.extension(count)
	case head >= 0xD9 && head <= 0xDB:
		return r.text(count)
	case head == 0xDC || head == 0xDD:
		return r.elements(count, depth)
	case head == 0xDE || head == 0xDF:
		return r.pairs(count, depth)
	}
	return nil, fmt.Errorf("MessagePack: byte %#x begins no value", head)
}

func (r *msgpackReader) signed(bytes int) (any, error) {
	number, err := r.number(bytes)
	shift := 64 - 8*bytes
	return int64(number<<shift) >> shift, err
}

func (r *msgpackReader) extension(count uint64) (any, error) {
	kind, err := r.number(1)
	if err != nil {
		return nil, err
	}
	data, err := r.take(count)
	return msgpackExtension{int8(kind), data}, err
}

func (r *msgpackReader) text(count uint64) (any, error) {
	taken, err := r.take(count)
	if err == nil && !utf8.Valid(taken) {
		err = fmt.Errorf("MessagePack: a string that is not UTF-8: %x", taken)
	}
	return string(taken), err
}

func (r *msgpackReader) elements(count uint64, depth int) (any, error) {
	list := []any{}
	for ; count > 0; count-- {
		element, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, element)
	}
	return list, nil
}

// pairs keeps keys as text, so that a map compares with a JSON object.
func (r *msgpackReader) pairs(count uint64, depth int) (any, error) {
	pairs := map[string]any{}
	for ; count > 0; count-- {
		key, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		value, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		pairs[fmt.Sprint(key)] = value
	}
	return pairs, nil
}
