// Package head reads from the first bytes of a connection what decides where it
// goes, and consumes nothing.
package head

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// A Kind is what the first bytes are the beginning of.
type Kind uint8

// The kinds of beginnings.
const (
	// Unknown: there are no bytes yet.
	Unknown Kind = iota
	HTTP
	TLS
	Neither
)

// KindOf goes by the first byte: 22 is that of a TLS handshake, and of no method.
func KindOf(first []byte) Kind {
	const handshake = 22
	switch {
	case len(first) == 0:
		return Unknown
	case first[0] == handshake:
		return TLS
	case isToken(first[:1]):
		return HTTP
	}
	return Neither
}

// A Request is what a route is chosen by.
type Request struct{ Host, Path string }

// ErrMalformed is that of a head that is not one of HTTP/1.
var ErrMalformed = errors.New("the request cannot be understood")

// ErrVersion is that of HTTP/2 without TLS.
var ErrVersion = errors.New("the request is not HTTP/1")

// A Scanner finds the end of a head that grows. Its zero value is ready.
type Scanner struct {
	seen int
	// begins: the first line is that of a request.
	begins bool
}

// Complete tells whether text, which begins as at the last call, holds the whole
// head. It looks at each byte once. ErrMalformed: the first line is no request's, as
// those of SSH and SMTP, and nothing that follows can mend that.
func (s *Scanner) Complete(text []byte) (bool, error) {
	if !s.begins && bytes.IndexByte(text, '\n') >= 0 {
		line, _ := cutLine(text)
		if _, _, err := requestLine(line); errors.Is(err, ErrMalformed) {
			return false, err
		}
		s.begins = true
	}
	return s.ends(text), nil
}

func (s *Scanner) ends(text []byte) bool {
	for s.seen < len(text) {
		newline := bytes.IndexByte(text[s.seen:], '\n')
		if newline < 0 {
			s.seen = len(text)
			return false
		}
		end := s.seen + newline
		switch {
		case end+1 == len(text) || end+2 == len(text) && text[end+1] == '\r':
			// What follows decides.
			s.seen = end
			return false
		case text[end+1] == '\n', text[end+1] == '\r' && text[end+2] == '\n':
			return true
		}
		s.seen = end + 1
	}
	return false
}

// Parse reads a whole head. It takes what net/http takes, and refuses more than one
// host, which two readers could understand in two ways.
func Parse(text []byte) (Request, error) {
	line, rest := cutLine(text)
	method, target, err := requestLine(line)
	if err != nil {
		return Request{}, err
	}
	host, hosts := "", 0
	for {
		line, rest = cutLine(rest)
		if len(line) == 0 {
			break
		}
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found || !isToken(name) {
			// Also a line that continues another: obsolete, and a way to hide a host.
			return Request{}, ErrMalformed
		}
		if len(name) == len("host") && bytes.EqualFold(name, []byte("host")) {
			host = string(bytes.Trim(value, " \t"))
			hosts++
		}
	}
	if hosts > 1 || !isHost(host) {
		return Request{}, ErrMalformed
	}
	return split(method, target, host)
}

// cutLine returns the first line without its end, and what follows.
func cutLine(text []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(text, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), rest
}

// requestLine takes "GET /path HTTP/1.1" apart.
// The method matters only where it is CONNECT.
func requestLine(line []byte) (method, target string, err error) {
	first, rest, _ := bytes.Cut(line, []byte(" "))
	second, version, complete := bytes.Cut(rest, []byte(" "))
	switch {
	case !complete || !isToken(first) || len(second) == 0 || slices.ContainsFunc(second, isControl):
		return "", "", ErrMalformed
	case len(version) != len("HTTP/1.1") || !bytes.HasPrefix(version, []byte("HTTP/")):
		return "", "", ErrMalformed
	case string(line) == http2Preface:
		return "", "", ErrVersion
	case version[5] != '1' || version[6] != '.' || version[7] < '0' || version[7] > '1':
		return "", "", ErrMalformed
	case string(first) == http.MethodConnect:
		return http.MethodConnect, string(second), nil
	}
	return "", string(second), nil
}

// http2Preface is the first line of HTTP/2 without TLS.
const http2Preface = "PRI * HTTP/2.0"

func isControl(b byte) bool { return b < ' ' || b == 0x7f }

// split takes host and path from a target; that of a proxy's request names the host
// itself, and then counts.
func split(method, target, host string) (Request, error) {
	switch {
	case target[0] == '/' || target == "*" && method != http.MethodConnect:
		return Request{Host: host, Path: target}, nil
	case method == http.MethodConnect:
		return Request{Host: target}, targetHostError(target)
	}
	scheme, rest, _ := strings.Cut(target, "://")
	if !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return Request{}, ErrMalformed
	}
	host, path := rest, "/"
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		host, path = rest[:end], rest[end:]
	}
	if path[0] != '/' {
		path = "/" + path
	}
	if host == "" {
		return Request{}, ErrMalformed
	}
	return Request{Host: host, Path: path}, targetHostError(host)
}

// targetHostError refuses also what net/http decodes in a target's host, or cuts from it.
func targetHostError(host string) error {
	if !isHost(host) || strings.ContainsAny(host, "%?#") {
		return ErrMalformed
	}
	return nil
}

func isHost(host string) bool {
	for i := range len(host) {
		if b := host[i]; b <= ' ' || b >= 0x7f || b == '/' || b == ',' || b == '@' {
			return false
		}
	}
	return true
}

// isToken is that of RFC 9110.
func isToken(name []byte) bool {
	for _, b := range name {
		letter := b|0x20 >= 'a' && b|0x20 <= 'z'
		digit := b >= '0' && b <= '9'
		if !letter && !digit && strings.IndexByte("!#$%&'*+-.^_`|~", b) < 0 {
			return false
		}
	}
	return len(name) > 0
}
