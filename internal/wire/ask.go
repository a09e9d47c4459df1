package wire

import "encoding/binary"

// ConnectionKeyBytes is the size of a connection's key.
const ConnectionKeyBytes = 16

const (
	askedCallBytes = 8
	askBytesMin    = ConnectionKeyBytes + askedCallBytes
	askBytesMax    = ConnectionKeyBytes + AskedCallsMax*askedCallBytes
)

// A ConnectionKey names a connection to the server that has drawn it, also after the
// connection has ended. Nobody can guess it: only the caller that was told it can ask about
// the connection.
type ConnectionKey [ConnectionKeyBytes]byte

// A Stage says how far a call came that was asked about. spec/call-semantics.md says which
// outcome follows.
type Stage uint8

// The stages of an answer to ASK.
const (
	// StageNever: the request was not received, and will never run.
	StageNever Stage = 0
	// StageReceived: the function was not started, and never will be.
	StageReceived Stage = 1
	// StageStarted: the function had not returned when the answer was made.
	StageStarted Stage = 2
	// StageFinished: the function had returned.
	StageFinished Stage = 3
	// StageNotKept: nothing is known of the call any more, or the key is unknown.
	StageNotKept Stage = 4
)

// connectionKey returns what the extension of a welcome says, and the zero key if it is not
// there or has another size.
func connectionKey(extensions []byte) (key ConnectionKey) {
	if content, _ := FindExtension(extensions, ExtensionConnectionKey); len(content) == ConnectionKeyBytes {
		copy(key[:], content)
	}
	return key
}

// AppendAsk appends the payload of an ASK about calls of the connection that has the key.
// Preconditions: there are 1 to AskedCallsMax ids.
func AppendAsk(b []byte, key ConnectionKey, ids []uint64) []byte {
	b = append(b, key[:]...)
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint64(b, id)
	}
	return b
}

// ParseAsk reads the payload of an ASK that the parser let through.
func ParseAsk(payload []byte) (key ConnectionKey, ids []uint64, err error) {
	rest := payload[copy(key[:], payload):]
	if len(rest)%askedCallBytes != 0 {
		return key, nil, protocolErrorf("ASK with a payload of %d bytes (%d for each call, after %d)", len(payload), askedCallBytes, ConnectionKeyBytes)
	}
	ids = make([]uint64, 0, len(rest)/askedCallBytes)
	for ; len(rest) > 0; rest = rest[askedCallBytes:] {
		ids = append(ids, binary.LittleEndian.Uint64(rest))
	}
	return key, ids, nil
}
