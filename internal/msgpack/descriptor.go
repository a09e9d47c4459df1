package msgpack

// The extension that stands for a descriptor: its type, and one byte with the
// number that the descriptor has in its frame.
const (
	fixedExtension1 = 0xD4
	descriptorType  = 1
	descriptorBytes = 3
)

// AppendDescriptor appends the value that stands for a descriptor of the frame.
func AppendDescriptor(dst []byte, number int) []byte {
	return append(dst, fixedExtension1, descriptorType, byte(number))
}

// ReadDescriptor reads the number of a descriptor; want is what the schema calls
// the value.
func ReadDescriptor(src []byte, want string) (number int, rest []byte, err error) {
	if !isDescriptor(src) {
		return 0, src, mismatch(src, want)
	}
	if len(src) < descriptorBytes {
		return 0, src, ErrShort
	}
	return int(src[descriptorBytes-1]), src[descriptorBytes:], nil
}

func isDescriptor(src []byte) bool {
	return len(src) > 1 && src[0] == fixedExtension1 && src[1] == descriptorType
}
