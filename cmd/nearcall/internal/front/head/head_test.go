package head_test

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/head"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]head.Request{
		"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n":                             {Host: "a.example", Path: "/"},
		"GET /x?y HTTP/1.0\r\n\r\n":                                             {Path: "/x?y"},
		"POST /x HTTP/1.1\nhOST:\t a:80 \nX: y\n\nbody":                         {Host: "a:80", Path: "/x"},
		"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n":                                 {Host: "a", Path: "*"},
		"GET http://b.example:1/x HTTP/1.1\r\nHost: a\r\n\r\n":                  {Host: "b.example:1", Path: "/x"},
		"GET HTTP://b.example?q HTTP/1.1\r\nHost: a\r\n\r\n":                    {Host: "b.example", Path: "/?q"},
		"CONNECT b.example:443 HTTP/1.1\r\nHost: a\r\n\r\n":                     {Host: "b.example:443"},
		"CONNECT * HTTP/1.0\r\nHost: a\r\n\r\n":                                 {Host: "*"},
		"GET / HTTP/1.1\r\nHost: [::1]:80\r\nX-Host: b\r\nHosts: c\r\n\r\nHost": {Host: "[::1]:80", Path: "/"},
	} {
		if got, err := head.Parse([]byte(text)); err != nil || got != want {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", text, got, err, want)
		}
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]error{
		"\r\n\r\n":    head.ErrMalformed,
		"GET\r\n\r\n": head.ErrMalformed, "GET /\r\n\r\n": head.ErrMalformed, "GET  HTTP/1.1\r\n\r\n": head.ErrMalformed,
		"GET / HTTX/1.1\r\n\r\n": head.ErrMalformed, "G{T / HTTP/1.1\r\n\r\n": head.ErrMalformed, "GET /\x01 HTTP/1.1\r\n\r\n": head.ErrMalformed,
		"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n": head.ErrMalformed,
		"GET / HTTP/1.1\r\nHost : a\r\n\r\n":           head.ErrMalformed,
		"GET / HTTP/1.1\r\nX: y\r\n Host: a\r\n\r\n":   head.ErrMalformed,
		"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n":          head.ErrMalformed,
		"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n":         head.ErrMalformed,
		"GET / HTTP/1.1\r\nno colon\r\n\r\n":           head.ErrMalformed,
		"GET http://a b/ HTTP/1.1\r\n\r\n":             head.ErrMalformed,
		"GET a:b HTTP/1.1\r\n\r\n":                     head.ErrMalformed, "GET http://u@a/ HTTP/1.1\r\n\r\n": head.ErrMalformed, "GET ftp://a/ HTTP/1.1\r\n\r\n": head.ErrMalformed,
		"GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n":      head.ErrMalformed,
		"GET http://a%C3/ HTTP/1.1\r\n\r\n":              head.ErrMalformed,
		"GET http://[fe80::1%25e]/ HTTP/1.1\r\n\r\n":     head.ErrMalformed,
		"CONNECT a?b HTTP/1.1\r\n\r\n":                   head.ErrMalformed,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":               head.ErrVersion,
		"\x80\x2e\x01\x03\x01 HTTP/1.1\r\nHost: a\r\n\n": head.ErrMalformed,
	} {
		if got, err := head.Parse([]byte(text)); !errors.Is(err, want) {
			t.Errorf("Parse(%q) = %+v, %v, want %v", text, got, err, want)
		}
	}
}

func TestKindOf(t *testing.T) {
	for text, want := range map[string]head.Kind{"": head.Unknown, "\x16\x03\x01": head.TLS, "G": head.HTTP, "\x00": head.Neither, "\r\n": head.Neither} {
		if got := head.KindOf([]byte(text)); got != want {
			t.Errorf("KindOf(%q) = %v, want %v", text, got, want)
		}
	}
}

// A head is complete at the same byte however it arrives.
func FuzzScanner(f *testing.F) {
	f.Add("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET", uint64(3))
	f.Add("\n\n\r\n\r\n", uint64(1))
	f.Add("a\r\r\n\n\r\n", uint64(0xffff))
	f.Fuzz(func(t *testing.T, text string, steps uint64) {
		end := len(text) + 1
		for _, mark := range []string{"\n\n", "\n\r\n"} {
			if i := strings.Index(text, mark); i >= 0 {
				end = min(end, i+len(mark))
			}
		}
		var scanner head.Scanner
		for n := range len(text) + 1 {
			if steps>>(n%64)&1 == 0 && n != len(text) {
				continue
			}
			complete, err := scanner.Complete([]byte(text[:n]))
			if err != nil {
				if n < bytes.IndexByte([]byte(text), '\n') {
					t.Fatalf("%q: refused at %d bytes", text, n)
				}
				return
			}
			if complete != (n >= end) {
				t.Fatalf("%q: complete %v at %d bytes, the head ends at %d", text, complete, n, end)
			}
			if complete {
				return
			}
		}
	})
}

// What is taken here, net/http understands the same way: nobody is led to a
// backend by one host and served by another.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "GET http://b/x HTTP/1.1\r\nHost: a\r\n\r\n", "CONNECT b:1 HTTP/1.1\r\nHost: a\r\n\r\n",
		"CONNECT * HTTP/1.1\r\nHost: a\r\n\r\n", "CONNECT a?b HTTP/1.1\r\n\r\n", "GET http://a%C3/ HTTP/1.1\r\n\r\n", "GET http://[::1%25e] HTTP/1.1\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.0\r\n\r\n", "GET //x HTTP/1.1\r\nHost: a\n\n", "GET /%41 HTTP/1.1\r\nHost:a\r\n\r\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := head.Parse(text)
		if err != nil {
			return
		}
		var scanner head.Scanner
		if complete, err := scanner.Complete(text); !complete || err != nil {
			return
		}
		request, err := http.ReadRequest(bufio.NewReaderSize(bytes.NewReader(text), len(text)+16))
		if err != nil {
			return // The backend answers 400.
		}
		if request.Host != got.Host {
			t.Fatalf("%q: host %q, net/http says %q", text, got.Host, request.Host)
		}
		same := strings.HasSuffix(request.RequestURI, strings.TrimPrefix(got.Path, "/"))
		if strings.HasPrefix(request.RequestURI, "/") {
			same = got.Path == request.RequestURI
		}
		if !same && request.Method != http.MethodConnect {
			t.Fatalf("%q: path %q, net/http says %q", text, got.Path, request.RequestURI)
		}
	})
}

func TestParseAllocates(t *testing.T) {
	text := []byte("GET /path HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n")
	if n := testing.AllocsPerRun(100, func() { _, _ = head.Parse(text) }); n > 2 {
		t.Errorf("%v allocations, want those of host and path", n)
	}
}
