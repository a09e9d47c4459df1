package wire

import "encoding/binary"

const (
	// StoreAskBytes is the size of the payload of a STORE: how many bytes are to be stored.
	StoreAskBytes = 8
	// StorePlaces is how many stores a connection has: first those for requests, then those
	// for replies.
	StorePlaces = 2 * StoresPerDirection
	// StoreDescriptors come with a REPLY that names a store which the caller does not have.
	StoreDescriptors = 1
	// StoredExtensionBytes is what the extension that names a store takes of a frame.
	StoredExtensionBytes = extensionHeaderBytes + storedBytes

	storedBytes   = 16
	releaseBytes  = 12
	releaseForget = 1
)

// A Stored says which use of which store a payload lies in, and how many bytes it has.
type Stored struct {
	Place  uint32
	Serial uint32
	Bytes  uint64
}

// AppendStored appends the extension that names a store.
func AppendStored(b []byte, s Stored) []byte {
	var content [storedBytes]byte
	binary.LittleEndian.PutUint32(content[0:], s.Place)
	binary.LittleEndian.PutUint32(content[4:], s.Serial)
	binary.LittleEndian.PutUint64(content[8:], s.Bytes)
	return AppendExtension(b, ExtensionStored, string(content[:]))
}

// FindStored returns what the extension of a frame says. valid is false if it is there and
// cannot be right. Preconditions: frame was accepted by a parser.
func FindStored(frame *Frame) (s Stored, found, valid bool) {
	content, found := FindExtension(frame.Extensions, ExtensionStored)
	if !found {
		return s, false, true
	}
	if len(content) != storedBytes || len(frame.Payload) > 0 {
		return s, true, false
	}
	s = Stored{
		Place:  binary.LittleEndian.Uint32(content[0:]),
		Serial: binary.LittleEndian.Uint32(content[4:]),
		Bytes:  binary.LittleEndian.Uint64(content[8:]),
	}
	return s, true, s.Place < StorePlaces && s.Serial != 0 && s.Bytes <= ValueBytesMaxCeiling
}

// AppendStoreAsk appends the payload of a STORE.
func AppendStoreAsk(b []byte, bytes uint64) []byte { return binary.LittleEndian.AppendUint64(b, bytes) }

// ParseStoreAsk reads the payload of a STORE that the parser let through.
func ParseStoreAsk(payload []byte) uint64 { return binary.LittleEndian.Uint64(payload) }

// A StoreRelease is the payload of a RELEASE: the use of a store is over. Forget says that the
// caller does not have the store, so that it cannot be used again.
type StoreRelease struct {
	Place  uint32
	Serial uint32
	Forget bool
}

// Append appends the payload to b.
func (r StoreRelease) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, r.Place)
	b = binary.LittleEndian.AppendUint32(b, r.Serial)
	flags := uint32(0)
	if r.Forget {
		flags = releaseForget
	}
	return binary.LittleEndian.AppendUint32(b, flags)
}

// ParseStoreRelease reads the payload of a RELEASE that the parser let through.
func ParseStoreRelease(payload []byte) (StoreRelease, error) {
	r := StoreRelease{Place: binary.LittleEndian.Uint32(payload[0:]), Serial: binary.LittleEndian.Uint32(payload[4:])}
	flags := binary.LittleEndian.Uint32(payload[8:])
	if r.Place >= StorePlaces || flags > releaseForget {
		return r, protocolErrorf("RELEASE of place %d with flags %d (places are below %d, flags at most %d)", r.Place, flags, StorePlaces, releaseForget)
	}
	r.Forget = flags == releaseForget
	return r, nil
}
