//go:build unix

package handoff_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/handoff"
	"github.com/nearcall/nearcall/internal/wire"
)

var heads = map[string]string{
	"ordinary":         "GET /a?b=c HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\nX-Two: 1\r\nX-Two: 2\r\n\r\n",
	"HTTP/1.0":         "GET / HTTP/1.0\r\n\r\n",
	"absolute form":    "GET http://other.example/x HTTP/1.1\r\nHost: example.com\r\n\r\n",
	"authority form":   "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n",
	"asterisk form":    "OPTIONS * HTTP/1.1\r\nHost: example.com\r\n\r\n",
	"folded field":     "GET / HTTP/1.1\r\nHost: example.com\r\nX-Long: one\r\n two\r\n\tthree\r\n\r\n",
	"bare line feeds":  "GET / HTTP/1.1\nHost: example.com\nX: y\n\n",
	"mixed line ends":  "GET / HTTP/1.1\nHost: example.com\r\n\n",
	"a body of length": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
	"a chunked body":   "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: Sum\r\n\r\n",
	"HTTP/2 at once":   "PRI * HTTP/2.0\r\n\r\n",
	"a large field":    "GET / HTTP/1.1\r\nHost: a\r\nCookie: " + strings.Repeat("c", 30000) + "\r\n\r\n",
	"odd method":       "M-SEARCH * HTTP/1.1\r\nHost: a\r\n\r\n",
}

// The head is what net/http makes of it, and stays in the socket with what
// follows it.
func TestPeekHTTP1(t *testing.T) {
	for name, head := range heads {
		t.Run(name, func(t *testing.T) {
			client, served := tcpPair(t)
			const follows = "12345GET /next HTTP/1.1\r\n\r\n"
			send(t, client, head+follows)
			must(t, client.CloseWrite())
			got, err := handoff.PeekHTTP1(t.Context(), served)
			must(t, err)
			want, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head + follows)))
			must(t, err)
			expectSameHead(t, got, want)
			if rest, err := io.ReadAll(served); err != nil || string(rest) != head+follows {
				t.Fatalf("the socket has %d bytes, %v", len(rest), err)
			}
		})
	}
}

func expectSameHead(t *testing.T, got, want *http.Request) {
	t.Helper()
	if body, err := io.ReadAll(got.Body); len(body) > 0 || err != nil {
		t.Errorf("the body is %q, %v", body, err)
	}
	for _, pair := range [][2]any{
		{got.Method, want.Method}, {got.RequestURI, want.RequestURI}, {got.URL, want.URL}, {got.Proto, want.Proto}, {got.Host, want.Host},
		{got.Header, want.Header}, {got.ContentLength, want.ContentLength}, {got.TransferEncoding, want.TransferEncoding}, {got.Close, want.Close},
		{got.Trailer, want.Trailer},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("got %v, net/http %v", pair[0], pair[1])
		}
	}
}

// Every byte in a segment of its own.
func TestPeekHTTP1ByteByByte(t *testing.T) {
	client, served := tcpPair(t)
	head := heads["folded field"]
	go func() {
		for i := range len(head) {
			_, _ = io.WriteString(client, head[i:i+1])
			time.Sleep(time.Millisecond)
		}
	}()
	got, err := handoff.PeekHTTP1(t.Context(), served)
	if err != nil || got.Header.Get("X-Long") != "one two three" {
		t.Fatalf("got %v, %v", got, err)
	}
}

// What can never become a request is refused at once, although the client waits.
func TestPeekHTTP1RefusesGarbage(t *testing.T) {
	for name, row := range map[string]struct{ text, says string }{
		"TLS":             {"\x16\x03\x01\x02\x00\x01", "TLS"},
		"an empty line":   {"\r\nGET / HTTP/1.1\r\n", "method"},
		"a space first":   {" GET / HTTP/1.1", "method"},
		"a colon":         {"SSH-2.0:OpenSSH", "method"},
		"binary":          {"GE\x00T", "byte 3"},
		"no target":       {"GET HTTP/1.1\r\n", "request line"},
		"HTTP/0.9":        {"GET /\r\n", "request line"},
		"a wrong version": {"GET / HTTP/one\r\n", "request line"},
		"one word":        {"QUIT\r\n", "method"},
		"a field alone":   {"GET / HTTP/1.1\r\nHost\r\n\r\n", "malformed MIME header"},
		"a bad target":    {"GET \x7f HTTP/1.1\r\nHost: a\r\n\r\n", "invalid"},
		"two lengths":     {"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "Content-Length"},
	} {
		t.Run(name, func(t *testing.T) {
			client, served := tcpPair(t)
			send(t, client, row.text)
			_, err := handoff.PeekHTTP1(t.Context(), served)
			if !errors.Is(err, handoff.ErrNotHTTP) || !strings.Contains(err.Error(), row.says) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

// What is only not all there yet is told apart from garbage.
func TestPeekHTTP1Incomplete(t *testing.T) {
	for _, text := range []string{"G", "GET", "GET / HT", "GET / HTTP/1.1\r\nHost: a\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r"} {
		client, served := tcpPair(t)
		send(t, client, text)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := handoff.PeekHTTP1(ctx, served)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, handoff.ErrNotHTTP) {
			t.Errorf("%q: %v", text, err)
		}
		must(t, client.CloseWrite())
		if _, err := handoff.PeekHTTP1(t.Context(), served); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q and the end: %v", text, err)
		}
	}
}

// headOfBytes returns a head of exactly that many bytes.
func headOfBytes(count int) string {
	const begin, end = "GET / HTTP/1.1\r\nHost: a\r\nCookie: ", "\r\n\r\n"
	return begin + strings.Repeat("c", count-len(begin)-len(end)) + end
}

// A head in thousands of small segments fits although each costs the kernel more
// than its bytes.
func TestPeekHTTP1InSmallSegments(t *testing.T) {
	client, served := tcpPair(t)
	head := headOfBytes(wire.PeekBytesMax)
	go func() {
		for begin := 0; begin < len(head); begin += 16 {
			_, _ = io.WriteString(client, head[begin:begin+16])
		}
	}()
	if _, err := handoff.PeekHTTP1(t.Context(), served); err != nil {
		t.Fatal(err)
	}
}

func TestPeekHTTP1Limit(t *testing.T) {
	for _, row := range []struct {
		bytes int
		wants error
	}{{wire.PeekBytesMax, nil}, {wire.PeekBytesMax + 1, handoff.ErrTooLarge}, {4 * wire.PeekBytesMax, handoff.ErrTooLarge}} {
		client, served := tcpPair(t)
		go func() { _, _ = io.WriteString(client, headOfBytes(row.bytes)) }()
		request, err := handoff.PeekHTTP1(t.Context(), served)
		if !errors.Is(err, row.wants) || (request == nil) == (err == nil) {
			t.Fatalf("%d bytes: %v", row.bytes, err)
		}
		client.Close()
	}
}

// handOver serves one connection that was peeked at with a server that knows
// nothing of it.
func handOver(t *testing.T, accept func(net.Conn) net.Conn) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	peeked := &peekedListener{Listener: listener, accept: accept}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s\n", r.Proto, r.Method, r.URL.Path, body)
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(peeked) }()
	t.Cleanup(func() { server.Close(); <-served })
	return listener.Addr().String()
}

type peekedListener struct {
	net.Listener
	accept func(net.Conn) net.Conn
}

func (l *peekedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.accept(conn), nil
}

func curl(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out, errors bytes.Buffer
	run := exec.CommandContext(ctx, "curl", append([]string{"--silent", "--show-error"}, args...)...)
	run.Stdout, run.Stderr = &out, &errors
	if err := run.Run(); err != nil {
		t.Fatalf("curl: %v: %s", err, errors.String())
	}
	return out.String()
}

func TestPeekHTTP1WithCurl(t *testing.T) {
	heads := make(chan *http.Request, 4)
	address := handOver(t, func(conn net.Conn) net.Conn {
		head, err := handoff.PeekHTTP1(t.Context(), conn.(*net.TCPConn))
		if err != nil {
			t.Error(err)
		}
		heads <- head
		return conn
	})
	got := curl(t, "--header", "Host: shop.example", "http://"+address+"/first", "http://"+address+"/second", "--data", "body", "--next", "http://"+address+"/third")
	if got != "HTTP/1.1 POST /first body\nHTTP/1.1 POST /second body\nHTTP/1.1 GET /third \n" {
		t.Errorf("curl got %q", got)
	}
	if head := <-heads; head == nil || head.Host != "shop.example" || head.URL.Path != "/first" || head.ContentLength != 4 {
		t.Errorf("the head was %+v", head)
	}
	// A body for which curl waits to be asked.
	large := strings.Repeat("b", 3000)
	got = curl(t, "--header", "Expect: 100-continue", "--data", large, "http://"+address+"/expect")
	if head := <-heads; got != "HTTP/1.1 POST /expect "+large+"\n" || head.Header.Get("Expect") != "100-continue" {
		t.Errorf("curl got %.40q for %+v", got, head)
	}
}

// Pipelined requests stay behind the first.
func TestPeekHTTP1Pipelined(t *testing.T) {
	address := handOver(t, func(conn net.Conn) net.Conn {
		if _, err := handoff.PeekHTTP1(t.Context(), conn.(*net.TCPConn)); err != nil {
			t.Error(err)
		}
		return conn
	})
	client, err := net.Dial("tcp", address)
	must(t, err)
	defer client.Close()
	send(t, client, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhiGET /3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	all, err := io.ReadAll(client)
	must(t, err)
	for _, answer := range []string{"HTTP/1.1 GET /1 \n", "HTTP/1.1 POST /2 hi\n", "HTTP/1.1 GET /3 \n"} {
		if !strings.Contains(string(all), answer) {
			t.Errorf("%q is missing in %q", answer, all)
		}
	}
}

// HTTP/2 without TLS is told by its method.
func TestPeekHTTP1SeesHTTP2WithCurl(t *testing.T) {
	heads := make(chan *http.Request, 1)
	address := handOver(t, func(conn net.Conn) net.Conn {
		head, err := handoff.PeekHTTP1(t.Context(), conn.(*net.TCPConn))
		if err != nil {
			t.Error(err)
		}
		heads <- head
		return conn
	})
	run := exec.CommandContext(t.Context(), "curl", "--silent", "--max-time", "10", "--http2-prior-knowledge", "http://"+address+"/")
	_ = run.Run() // the server does not speak it
	if head := <-heads; head == nil || head.Method != "PRI" || head.ProtoMajor != 2 {
		t.Fatalf("the head was %+v", head)
	}
}
