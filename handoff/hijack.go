package handoff

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// FromHijack prepares what http.Hijacker returned for being given away. It returns the
// connection, and the bytes that were read from it but belong to whoever serves it
// next; pass those as Meta.Prefix. They are the rest of the request's body, as far as
// the handler has not read it, and any requests that the client has sent ahead. rw must
// not be used after that; bytes that were still to be written are written first.
//
// A *Conn stays a *Conn. What it holds itself is not among the bytes, because giving it
// away adds that.
//
// A *tls.Conn cannot be given away, because TLS ends in the process that has its keys:
// the error is errors.ErrUnsupported. Let the receiver do the handshake instead (see
// PeekTLS).
func FromHijack(c net.Conn, rw *bufio.ReadWriter) (net.Conn, []byte, error) {
	if _, ok := c.(*tls.Conn); ok {
		return nil, nil, &Error{Op: "hijack", Err: errTLSHere}
	}
	if rw == nil {
		return c, nil, nil
	}
	if rw.Writer != nil {
		if err := rw.Flush(); err != nil {
			return nil, nil, &Error{Op: "hijack", Err: err}
		}
	}
	if rw.Reader == nil || rw.Reader.Buffered() == 0 {
		return c, nil, nil
	}
	unread := make([]byte, rw.Reader.Buffered())
	if _, err := rw.Read(unread); err != nil {
		return nil, nil, &Error{Op: "hijack", Err: err}
	}
	return c, unread, nil
}

var errTLSHere = fmt.Errorf("%w: TLS ends in this process; give the connection away before the handshake", errors.ErrUnsupported)
