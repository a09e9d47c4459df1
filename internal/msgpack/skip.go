package msgpack

import (
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/tinylib/msgp/msgp"
)

// Skip returns what follows the value at src, which lies inside depth lists,
// maps or structs. It uses a fixed amount of stack, whatever src holds.
func Skip(src []byte, depth int) ([]byte, error) {
	// left[level] counts the values still to come in each open list or map;
	// level 0 is the value that is asked for.
	var left [wire.NestingDepthMax + 1]int
	left[0] = 1
	for level := 0; level >= 0; {
		if left[level] == 0 {
			level--
			continue
		}
		left[level]--
		inside, rest, err := skipOne(src, depth+level)
		if err != nil {
			return src, err
		}
		src = rest
		if inside > 0 {
			level++
			left[level] = inside
		}
	}
	return src, nil
}

// skipOne passes a value that has no others inside, or the header of one that
// has, and returns how many.
func skipOne(src []byte, depth int) (inside int, rest []byte, err error) {
	switch msgp.NextType(src) {
	case msgp.ArrayType:
		return ReadList(src, depth)
	case msgp.MapType:
		pairs, rest, err := ReadStruct(src, depth)
		return 2 * pairs, rest, err
	}
	rest, err = msgp.Skip(src)
	if err == msgp.ErrShortBytes {
		return 0, src, ErrShort
	}
	if err != nil {
		return 0, src, mismatch(src, "value")
	}
	return 0, rest, nil
}
