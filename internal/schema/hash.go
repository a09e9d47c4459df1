package schema

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// The hash of a function covers all of its description but the documentation:
// what was encoded by one description may be decoded by another exactly when
// both have the same hash.

// contentHash returns the hash that the members of f have, in hex.
func (f *Function) contentHash() string {
	w := writer{out: make([]byte, 0, describedBytes)}
	w.function(f, parts{types: true})
	sum := sha256.Sum256(w.out)
	return hex.EncodeToString(sum[:])
}

// readHash takes the hash that the description states, which may cover members
// that this version does not know. That of a server which states none is
// computed.
func (f *Function) readHash(object map[string]any) (err error) {
	if f.Hash, err = member[string](object, "hash", false); err != nil {
		return err
	}
	if f.Hash == "" {
		f.Hash = f.contentHash()
		return nil
	}
	if len(f.Hash) != 2*sha256.Size || !IsHashPrefix(f.Hash) {
		return fmt.Errorf("the hash %.80q is not of %d hexadecimal digits in lower case", f.Hash, 2*sha256.Size)
	}
	return nil
}

// IsHashPrefix reports whether text is the beginning of a hash, or all of one.
func IsHashPrefix(text string) bool {
	for _, r := range text {
		if (r < '0' || r > '9') && (r < 'a' || r > 'f') {
			return false
		}
	}
	return text != "" && len(text) <= 2*sha256.Size
}

// Check returns the description check: what a request says about the
// description that it was encoded by. It is never 0 but for a Function that was
// made by hand, without a hash.
func (f *Function) Check() uint32 {
	first, err := hex.DecodeString(f.Hash[:min(len(f.Hash), 8)])
	if err != nil || len(first) < 4 {
		return 0
	}
	return max(binary.LittleEndian.Uint32(first), 1)
}
