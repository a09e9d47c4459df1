package handoff

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/nearcall/nearcall/internal/wire"
)

// ErrNotTLS is in the error of PeekTLS if what the client has sent is not a TLS
// ClientHello and no further byte could make it one.
var ErrNotTLS = errors.New("not a TLS ClientHello")

// PeekTLS waits for a TLS ClientHello, in however many segments and records it arrives.
// It returns what crypto/tls would show to GetConfigForClient, for example ServerName
// and SupportedProtos. It consumes nothing: whoever gets the connection does the
// handshake.
//
// The errors are those of Peek, and ErrNotTLS as soon as the bytes cannot become a
// ClientHello. If the ClientHello announces that it is longer than peek_bytes_max, the
// error is ErrTooLarge at once. If the client encrypts its ClientHello (ECH),
// ServerName is the public name, which it shows to everybody.
func PeekTLS(ctx context.Context, c syscall.Conn) (*tls.ClientHelloInfo, error) {
	return PeekTLSWithin(ctx, c, wire.PeekBytesMax)
}

// PeekTLSWithin is PeekTLS with a limit on the bytes of the records and their headers,
// from 1 to peek_bytes_max.
func PeekTLSWithin(ctx context.Context, c syscall.Conn, bytesMax int) (*tls.ClientHelloInfo, error) {
	if bytesMax < 1 || bytesMax > wire.PeekBytesMax {
		return nil, fmt.Errorf("nearcall: PeekTLSWithin: %d is out of range (1 to %d)", bytesMax, wire.PeekBytesMax)
	}
	progress := helloProgress{bytesMax: bytesMax}
	data, err := Peek(ctx, c, progress.bytesMax, progress.complete)
	if err != nil {
		return nil, err
	}
	hello, err := parseClientHello(ctx, data)
	if err != nil {
		return nil, peekFailed(c, len(data), err)
	}
	if conn, ok := c.(net.Conn); ok {
		hello.Conn = conn
	}
	return hello, nil
}

// The framing of RFC 8446, sections 4 and 5.1. crypto/tls reads what is inside.
const (
	recordHandshake    = 22
	recordHeaderBytes  = 5
	recordBytesMax     = 1 << 14
	messageClientHello = 1
	messageHeaderBytes = 4
	recordVersionMajor = 3
	recordLengthOffset = 3
)

// A helloProgress says how far the records of a ClientHello were followed.
type helloProgress struct {
	bytesMax int
	next     int // where the first incomplete record begins
	have     int // bytes of the message in the records before that
	header   [messageHeaderBytes]byte
}

// complete reports whether the records in data hold a whole message.
func (p *helloProgress) complete(data []byte) (bool, error) {
	for {
		body, length, err := recordBody(data[p.next:])
		if err != nil {
			return false, err
		}
		reached := p.with(body)
		want, err := messageBytes(reached.header[:min(reached.have, messageHeaderBytes)], p.bytesMax)
		if err != nil || want > 0 && reached.have >= want {
			return err == nil, err
		}
		if length == 0 || len(body) < length {
			return false, nil
		}
		reached.next += recordHeaderBytes + length
		*p = reached
	}
}

func (p helloProgress) with(body []byte) helloProgress {
	if p.have < messageHeaderBytes {
		copy(p.header[p.have:], body)
	}
	p.have += len(body)
	return p
}

// recordBody returns as much of the first record's body as is there, and its full
// length, or 0 while that is not known.
func recordBody(data []byte) (body []byte, length int, err error) {
	switch {
	case len(data) > 0 && data[0] != recordHandshake:
		return nil, 0, fmt.Errorf("%w: a record of type %d, where a handshake (%d) is expected%s", ErrNotTLS, data[0], recordHandshake, httpHint(data))
	case len(data) > 1 && data[1] != recordVersionMajor:
		return nil, 0, fmt.Errorf("%w: a record of version %d", ErrNotTLS, data[1])
	case len(data) < recordHeaderBytes:
		return nil, 0, nil
	}
	length = int(data[recordLengthOffset])<<8 | int(data[recordLengthOffset+1])
	if length == 0 || length > recordBytesMax {
		return nil, 0, fmt.Errorf("%w: a record of %d bytes", ErrNotTLS, length)
	}
	return data[recordHeaderBytes:min(len(data), recordHeaderBytes+length)], length, nil
}

// messageBytes returns the length of the message with its header, or 0 while that is
// not known.
func messageBytes(header []byte, bytesMax int) (int, error) {
	if len(header) > 0 && header[0] != messageClientHello {
		return 0, fmt.Errorf("%w: a handshake message of type %d", ErrNotTLS, header[0])
	}
	if len(header) < messageHeaderBytes {
		return 0, nil
	}
	length := messageHeaderBytes + int(header[1])<<16 + int(header[2])<<8 + int(header[3])
	if length+recordHeaderBytes > bytesMax {
		return 0, fmt.Errorf("%w: a ClientHello of %d bytes", ErrTooLarge, length)
	}
	return length, nil
}

// errHelloSeen ends a handshake that was begun only for its ClientHello.
var errHelloSeen = errors.New("the ClientHello was read")

// parseClientHello lets crypto/tls read a complete ClientHello.
func parseClientHello(ctx context.Context, data []byte) (*tls.ClientHelloInfo, error) {
	var seen *tls.ClientHelloInfo
	server := tls.Server(&recorded{data: bytes.NewReader(data)}, &tls.Config{
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			seen = hello
			return nil, errHelloSeen
		},
	})
	if err := server.HandshakeContext(context.WithoutCancel(ctx)); seen == nil {
		return nil, fmt.Errorf("%w: %w", ErrNotTLS, err)
	}
	return seen, nil
}

// A recorded is a connection whose peer has sent data and reads nothing.
type recorded struct {
	net.Conn
	data io.Reader
}

func (r *recorded) Read(b []byte) (int, error)  { return r.data.Read(b) }
func (r *recorded) Write(b []byte) (int, error) { return len(b), nil }
func (r *recorded) Close() error                { return nil }

func httpHint(data []byte) string {
	if isToken(rune(data[0])) {
		return "; this looks like HTTP without TLS"
	}
	return ""
}
