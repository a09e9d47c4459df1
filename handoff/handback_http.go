package handoff

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// HandBackRequest gives the connection of a request back to where it came from,
// as if the request had not been read: the giver's reads return its head and all
// that follows. It is for http.Handlers on connections that a Listener accepted,
// when a request turns out to be another's: a client that keeps its connection may
// ask for another host in the next request. Call it before anything was read from
// r.Body or written to w, and return.
//
// The head is made anew from r. Method, target (r.RequestURI), protocol, r.Host,
// the fields of r.Header and what frames the body are those that came; the order
// of the fields and the case of their names are not, and Cache-Control: no-cache
// stands beside a Pragma that asked for it. r.Method, r.Host and r.Header may have
// been changed on purpose.
//
// nil: the giver has the connection. An error that is http.ErrNotSupported came
// before anything was done, and w can still be answered: HTTP/2, TLS, or a server
// that cannot hijack. With any other error w can be used no more: the client was
// answered 503 and the connection closed.
func HandBackRequest(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	if r.TLS != nil || r.ProtoMajor != 1 {
		return handBackFailed(fmt.Errorf("%w: only HTTP/1 without TLS can be handed back, and this is %s", http.ErrNotSupported, r.Proto))
	}
	head, err := requestHeadOf(r)
	if err != nil {
		return handBackFailed(fmt.Errorf("%w: %w", http.ErrNotSupported, err))
	}
	hijacked, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return handBackFailed(err)
	}
	if err := handBackHijacked(ctx, hijacked, rw, head); err != nil {
		apologise(hijacked)
		return handBackFailed(err)
	}
	return nil
}

func handBackHijacked(ctx context.Context, c net.Conn, rw *bufio.ReadWriter, head []byte) error {
	conn, ok := c.(*Conn)
	if !ok {
		return fmt.Errorf("a %T was not accepted by a handoff.Listener", c)
	}
	_, unread, err := FromHijack(conn, rw)
	if err != nil {
		return err
	}
	return conn.HandBack(ctx, append(head, unread...))
}

func handBackFailed(err error) error {
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	return &Error{Op: "hand back", Err: err}
}

// requestHeadOf undoes what net/http does to a head when it reads one.
func requestHeadOf(r *http.Request) ([]byte, error) {
	for _, part := range []string{r.Method, r.RequestURI, r.Proto} {
		if part == "" || strings.ContainsAny(part, " \t\r\n") {
			return nil, fmt.Errorf("%q cannot stand in a request line", part)
		}
	}
	if strings.ContainsAny(r.Host, "\r\n") {
		return nil, fmt.Errorf("%q is no host", r.Host)
	}
	var head bytes.Buffer
	fmt.Fprintf(&head, "%s %s %s\r\n", r.Method, r.RequestURI, r.Proto)
	if r.Host != "" || r.ProtoAtLeast(1, 1) {
		fmt.Fprintf(&head, "Host: %s\r\n", r.Host)
	}
	// What frames the body must fit the bytes that follow, whatever was done to the
	// fields since.
	framing := map[string]bool{"Host": true, "Transfer-Encoding": true, "Content-Length": true}
	_, sized := r.Header["Content-Length"]
	switch {
	case len(r.TransferEncoding) > 0:
		fmt.Fprintf(&head, "Transfer-Encoding: %s\r\n", strings.Join(r.TransferEncoding, ", "))
	case sized || r.ContentLength > 0:
		fmt.Fprintf(&head, "Content-Length: %d\r\n", r.ContentLength)
	}
	if len(r.Trailer) > 0 {
		framing["Trailer"] = true
		fmt.Fprintf(&head, "Trailer: %s\r\n", strings.Join(slices.Sorted(maps.Keys(r.Trailer)), ", "))
	}
	if err := r.Header.WriteSubset(&head, framing); err != nil {
		return nil, err
	}
	head.WriteString("\r\n")
	return head.Bytes(), nil
}

// apologyTimeout bounds how long a client that does not read the answer holds up
// the handler.
const apologyTimeout = 500 * time.Millisecond

// apologise answers for a server that can no more. It reads on for a while: to
// close with bytes unread resets the connection, and the answer may be lost.
func apologise(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(apologyTimeout))
	const answer = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
	if _, err := io.WriteString(c, answer); err != nil {
		return
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, c)
	}
}
