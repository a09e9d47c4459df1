package handoff

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// FromHijack makes what http.Hijacker returned fit to be given away: the
// connection, and the bytes that were read from it and belong to whoever is next,
// which are to be Meta.Prefix. These are the rest of the request's body, as far as
// the handler has not read it, and requests that the client sent ahead. rw is used
// up; bytes that were still to be written are written first.
//
// Where the connection is a *Conn it stays one, and what it holds itself is not
// among the bytes: giving it away adds that.
//
// TLS ends in the process that has its keys, so a *tls.Conn cannot be given away:
// the error is errors.ErrUnsupported. Let the receiver make the handshake
// (PeekTLS).
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
