package msgpack

import "github.com/tinylib/msgp/msgp"

// AppendListHeader begins a list of count elements, which are to follow.
func AppendListHeader(dst []byte, count int) []byte {
	return msgp.AppendArrayHeader(dst, uint32(count))
}
