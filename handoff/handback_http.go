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

// HandBackRequest gives the connection of a request back to the process that it came
// from, as if the request had not been read: that process reads its head and all that
// follows. Use it in http.Handlers on connections that a Listener accepted, when a
// request turns out to be meant for another server. That happens when a client keeps
// its connection and asks for another host in its next request. Call HandBackRequest
// before anything is read from r.Body or written to w, and return from the handler
// after it.
//
// The head is made anew from r. It has the method, the target (r.RequestURI), the
// protocol, r.Host, the fields of r.Header and the framing of the body that came. The
// order of the fields and the case of their names may differ, and a request with
// Pragma: no-cache gets Cache-Control: no-cache beside it. You may change r.Method,
// r.Host and r.Header on purpose before.
//
// If it returns nil, the connection belongs to the process that it came from. If the
// error is http.ErrNotSupported, nothing was done and w can still be used: the request
// came by HTTP/2 or TLS, or the server cannot hijack. After any other error w cannot be
// used: the client was answered 503 and the connection is closed.
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

// requestHeadOf undoes what net/http does to a head when it reads it.
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
	// fields in the meantime.
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

// apologyTimeout bounds how long a client that does not read the answer can hold up the
// handler.
const apologyTimeout = 500 * time.Millisecond

// apologise answers the client for a server that cannot. It reads on for a while,
// because closing a connection with unread bytes resets it, and the answer could be
// lost.
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
