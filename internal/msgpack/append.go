package msgpack

import "github.com/tinylib/msgp/msgp"

// AppendInt appends an integer in its shortest form.
func AppendInt(dst []byte, value int64) []byte {
	if int64(int8(value)) == value && value >= leastInOneByte {
		return append(dst, byte(value))
	}
	return msgp.AppendInt64(dst, value)
}

// AppendUint appends an integer in its shortest form.
func AppendUint(dst []byte, value uint64) []byte {
	if value < 0x80 {
		return append(dst, byte(value))
	}
	return msgp.AppendUint64(dst, value)
}
