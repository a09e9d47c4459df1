package handoff

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	"github.com/nearcall/nearcall/internal/wire"
)

// ErrNotHTTP is in the error of PeekHTTP1 if what the client has sent is not the head
// of an HTTP/1 request and no further byte could make it one.
var ErrNotHTTP = errors.New("not an HTTP/1 request")

// PeekHTTP1 waits for the head of an HTTP/1 request, up to the empty line after its
// fields, and returns it as http.ReadRequest does. It consumes nothing, so whoever gets
// the connection reads the request from its first byte. The result has no body,
// whatever its ContentLength says, and no context.
//
// The errors are those of Peek, and ErrNotHTTP as soon as the bytes cannot become a
// request. For a head longer than peek_bytes_max the error is ErrTooLarge; the fitting
// answer is 431. For a client that begins with HTTP/2 the method is PRI.
func PeekHTTP1(ctx context.Context, c syscall.Conn) (*http.Request, error) {
	head := requestHead{}
	if _, err := Peek(ctx, c, wire.PeekBytesMax, head.complete); err != nil {
		return nil, err
	}
	return head.request, nil
}

// A requestHead looks for the end of a head while more bytes arrive.
type requestHead struct {
	searched int // no head ends before this
	begun    bool
	request  *http.Request
}

func (h *requestHead) complete(data []byte) (bool, error) {
	if !h.begun {
		begun, err := requestLine(data)
		if err != nil || !begun {
			return false, err
		}
		h.begun = true
	}
	end := h.end(data)
	if end < 0 {
		return false, nil
	}
	request, err := http.ReadRequest(bufio.NewReaderSize(bytes.NewReader(data[:end]), min(end, peekBytesFirst)))
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrNotHTTP, err)
	}
	request.Body = http.NoBody
	h.request = request
	return true, nil
}

// end returns where the head ends, or -1. A line may end without a carriage return, as
// in net/http.
func (h *requestHead) end(data []byte) int {
	for {
		line := bytes.IndexByte(data[h.searched:], '\n')
		if line < 0 {
			return -1
		}
		rest := data[h.searched+line+1:]
		switch {
		case len(rest) > 0 && rest[0] == '\n':
			return h.searched + line + 2
		case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
			return h.searched + line + 3
		case len(rest) == 0, len(rest) == 1 && rest[0] == '\r':
			h.searched += line
			return -1
		}
		h.searched += line + 1
	}
}

// requestLine reports whether the first line is complete. The error says that it cannot
// be that of a request, which may show before it is complete.
func requestLine(data []byte) (begun bool, err error) {
	method := bytes.IndexFunc(data, func(r rune) bool { return !isToken(r) })
	if method < 0 {
		return false, nil
	}
	if method == 0 || data[method] != ' ' {
		return false, fmt.Errorf("%w: byte %d is %q, where a method is expected%s", ErrNotHTTP, method+1, data[method], tlsHint(data))
	}
	line, _, begun := bytes.Cut(data, []byte("\n"))
	if !begun {
		return false, nil
	}
	line = bytes.TrimSuffix(line, []byte("\r"))
	target, version, _ := bytes.Cut(line[method+1:], []byte(" "))
	if _, _, ok := http.ParseHTTPVersion(string(version)); !ok || len(target) == 0 {
		return false, fmt.Errorf("%w: malformed request line %.80q", ErrNotHTTP, line)
	}
	return true, nil
}

// isToken reports whether RFC 9110 allows the character in a method.
func isToken(r rune) bool {
	switch {
	case '0' <= r && r <= '9', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
		return true
	}
	return strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

func tlsHint(data []byte) string {
	if data[0] == recordHandshake {
		return "; this looks like TLS"
	}
	return ""
}
