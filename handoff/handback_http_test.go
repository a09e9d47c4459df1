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
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/handoff"
)

// A backend is an http.Server on a handoff.Listener, and the channel by which a
// front gives it connections and gets them back.
type backend struct {
	peer *handoff.Peer
	back chan *handoff.Conn
}

func startBackend(t *testing.T, handler http.HandlerFunc, options ...handoff.Option) *backend {
	t.Helper()
	listener, address := listen(t)
	server := &http.Server{Handler: handler, DisableGeneralOptionsHandler: true}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	b := &backend{back: make(chan *handoff.Conn, 8)}
	takeBack := handoff.WithTakeBack(func(c *handoff.Conn) { b.back <- c })
	b.peer = dial(t, address, append([]handoff.Option{takeBack}, options...)...)
	return b
}

// give gives a connection and returns the client's end.
func (b *backend) give(t *testing.T, m handoff.Meta) (client *net.TCPConn) {
	t.Helper()
	client, served := tcpPair(t)
	must(t, b.peer.SendConn(testContext(t), served, m))
	must(t, client.SetDeadline(time.Now().Add(testTimeout)))
	return client
}

// handingBack hands every request back and reports what became of it.
func handingBack(results chan<- error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		results <- handoff.HandBackRequest(r.Context(), w, r)
	}
}

// What the giver reads is what the client sent, but for the order of the fields and
// the case of their names.
func TestHandBackRequest(t *testing.T) {
	for name, row := range map[string]struct{ sent, back string }{
		"ordinary": {"GET /a?b=%20 HTTP/1.1\r\nX-Two: 1\r\nhost: shop.example:80\r\nx-two: 2\r\nAccept: */*\r\n\r\n",
			"GET /a?b=%20 HTTP/1.1\r\nHost: shop.example:80\r\nAccept: */*\r\nX-Two: 1\r\nX-Two: 2\r\n\r\n"},
		"HTTP/1.0":           {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", ""},
		"an empty host":      {"GET / HTTP/1.1\r\nHost: \r\n\r\n", ""},
		"absolute form":      {"GET http://other.example/x HTTP/1.1\r\nHost: a\r\n\r\n", "GET http://other.example/x HTTP/1.1\r\nHost: other.example\r\n\r\n"},
		"authority form":     {"CONNECT db.example:443 HTTP/1.1\r\nHost: db.example:443\r\n\r\n", ""},
		"asterisk form":      {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", ""},
		"a target as it was": {"GET //a/../b//%2f?x;y HTTP/1.1\r\nHost: a\r\n\r\n", ""},
		"a folded field":     {"GET / HTTP/1.1\r\nHost: a\r\nX-Long: one\r\n two\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX-Long: one two\r\n\r\n"},
		"bytes above ASCII":  {"GET / HTTP/1.1\r\nHost: a\r\nX-Name: M\xfcller\r\n\r\n", ""},
		"a body of length":   {"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345", ""},
		"an empty body":      {"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", ""},
		"expected":           {"PUT /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n", ""},
		"chunked":            {"POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", ""},
		"trailers": {"POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: Sum, Age\r\n\r\n0\r\nSum: 1\r\n\r\n",
			"POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: Age, Sum\r\n\r\n0\r\nSum: 1\r\n\r\n"},
		"an upgrade": {"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nSec-Websocket-Key: x\r\nUpgrade: websocket\r\n\r\n", ""},
		"pipelined":  {"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: b\r\nContent-Length: 2\r\n\r\nhiGET /3 HTTP/1.1\r\nhost:c\r\n\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if row.back == "" {
				row.back = row.sent
			}
			results := make(chan error, 1)
			b := startBackend(t, handingBack(results))
			client := b.give(t, handoff.Meta{})
			send(t, client, row.sent)
			must(t, <-results)
			expectBack(t, <-b.back, client, row.back)
		})
	}
}

// expectBack reads what the giver reads, and answers the client.
func expectBack(t *testing.T, back *handoff.Conn, client *net.TCPConn, want string) {
	t.Helper()
	defer back.Close()
	const later = "and what the client sends later"
	send(t, client, later)
	must(t, client.CloseWrite())
	if got, err := io.ReadAll(back); err != nil || string(got) != want+later {
		t.Errorf("the giver reads\n%q, %v; want\n%q", got, err, want+later)
	}
	send(t, back, "an answer")
	must(t, back.Close())
	if got, err := io.ReadAll(client); err != nil || string(got) != "an answer" {
		t.Errorf("the client reads %q, %v", got, err)
	}
}

// A kept connection goes back with the second request, although the prefix that it
// came with held a third.
func TestHandBackRequestOfAKeptConnection(t *testing.T) {
	results := make(chan error, 1)
	b := startBackend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "mine.example" {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "mine %s", body)
			return
		}
		results <- handoff.HandBackRequest(r.Context(), w, r)
	})
	const first = "POST / HTTP/1.1\r\nHost: mine.example\r\nContent-Length: 3\r\n\r\nabc"
	const second = "POST / HTTP/1.1\r\nHost: other.example\r\nContent-Length: 2\r\n\r\nde"
	const third = "GET / HTTP/1.1\r\nHost: third.example\r\n\r\n"
	client := b.give(t, handoff.Meta{Name: "route", Prefix: []byte(first + second + third), Message: []byte("kept")})
	answer, err := http.ReadResponse(bufio.NewReader(client), nil)
	must(t, err)
	if body, err := io.ReadAll(answer.Body); err != nil || string(body) != "mine abc" {
		t.Fatalf("the answer is %q, %v", body, err)
	}
	must(t, <-results)
	back := <-b.back
	if m := back.Meta(); m.Name != "route" || string(m.Message) != "kept" {
		t.Errorf("it comes back as %q with %q", m.Name, m.Message)
	}
	expectBack(t, back, client, second+third)
}

// A body that is larger than all buffers stays in the socket.
func TestHandBackRequestWithALargeBody(t *testing.T) {
	results := make(chan error, 1)
	b := startBackend(t, handingBack(results))
	client := b.give(t, handoff.Meta{})
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
	go func() {
		_, _ = fmt.Fprintf(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", len(body))
		_, _ = client.Write(body)
	}()
	must(t, <-results)
	back := <-b.back
	defer back.Close()
	request, err := http.ReadRequest(bufio.NewReader(back))
	must(t, err)
	if got, err := io.ReadAll(request.Body); err != nil || !bytes.Equal(got, body) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
}

// A changed request goes back changed, framed as its body is.
func TestHandBackRequestAfterChanges(t *testing.T) {
	results := make(chan error, 1)
	b := startBackend(t, func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("X-Tried", "a\r\nInjected: yes")
		r.Header.Del("Content-Length")
		r.Host = "other.example"
		results <- handoff.HandBackRequest(r.Context(), w, r)
	})
	client := b.give(t, handoff.Meta{})
	send(t, client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
	must(t, <-results)
	expectBack(t, <-b.back, client, "POST / HTTP/1.1\r\nHost: other.example\r\nContent-Length: 2\r\nX-Tried: a  Injected: yes\r\n\r\nhi")
}

// When nobody takes it back the client is told, even with a body under way.
func TestHandBackRequestFails(t *testing.T) {
	for name, row := range map[string]struct {
		options []handoff.Option
		wants   error
	}{
		"a giver that takes none back": {[]handoff.Option{handoff.WithTakeBack(nil)}, errors.ErrUnsupported},
		"a prefix that is too long":    {[]handoff.Option{handoff.WithPrefixLimit(10)}, handoff.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			results := make(chan error, 1)
			b := startBackend(t, handingBack(results), row.options...)
			client := b.give(t, handoff.Meta{})
			send(t, client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("b", 50000))
			answer, err := http.ReadResponse(bufio.NewReader(client), nil)
			must(t, err)
			if answer.StatusCode != http.StatusServiceUnavailable || !answer.Close {
				t.Errorf("the client is answered %s", answer.Status)
			}
			must(t, client.CloseWrite())
			if err := <-results; !errors.Is(err, row.wants) || errors.Is(err, http.ErrNotSupported) {
				t.Errorf("got %v", err)
			}
			if n, err := client.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("the connection goes on: %d, %v", n, err)
			}
		})
	}
}

// A request that did not come by HTTP/1 over a socket can still be answered.
func TestHandBackRequestOfOthers(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := handoff.HandBackRequest(r.Context(), w, r); !errors.Is(err, http.ErrNotSupported) || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", r.Proto, err)
		}
		_, _ = io.WriteString(w, "answered here")
	})
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	for _, option := range []string{"--http1.1", "--http2"} {
		if got := curl(t, option, "--insecure", server.URL); got != "answered here" {
			t.Errorf("%s: %q", option, got)
		}
	}
	recorder := httptest.NewRecorder()
	handler(recorder, httptest.NewRequest("GET", "/", nil))
	if recorder.Body.String() != "answered here" {
		t.Errorf("got %q", recorder.Body)
	}
}

// A server on a listener of another kind has nowhere to give it back to.
func TestHandBackRequestOfAnOrdinaryConnection(t *testing.T) {
	results := make(chan error, 1)
	server := httptest.NewServer(handingBack(results))
	defer server.Close()
	response, err := http.Get(server.URL)
	must(t, err)
	response.Body.Close()
	if err := <-results; response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(err.Error(), "was not accepted by a handoff.Listener") {
		t.Errorf("%s, %v", response.Status, err)
	}
}

// What a server had read ahead goes on with the connection.
func TestFromHijack(t *testing.T) {
	const first, next = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n", "GET /2 HTTP/1.1\r\nHost: a\r\n\r\n"
	type hijacked struct {
		conn   net.Conn
		unread []byte
		err    error
	}
	results := make(chan hijacked, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			results <- hijacked{err: err}
			return
		}
		_, _ = rw.WriteString("written before")
		conn, unread, err := handoff.FromHijack(c, rw)
		results <- hijacked{conn, unread, err}
	}))
	defer server.Close()
	client, err := net.Dial("tcp", server.Listener.Addr().String())
	must(t, err)
	defer client.Close()
	send(t, client, first+next)
	got := <-results
	if must(t, got.err); string(got.unread) != next {
		t.Fatalf("unread are %q", got.unread)
	}
	listener, address := listen(t)
	taken := accepted(listener)
	must(t, dial(t, address).SendConn(testContext(t), got.conn, handoff.Meta{Prefix: got.unread}))
	conn := <-taken
	defer conn.Close()
	request, err := http.ReadRequest(bufio.NewReader(conn))
	if must(t, err); request.URL.Path != "/2" {
		t.Errorf("the next owner reads %s", request.URL)
	}
	answer := make([]byte, len("written before"))
	_, err = io.ReadFull(client, answer)
	if must(t, err); string(answer) != "written before" {
		t.Errorf("the client reads %q", answer)
	}
}

func TestFromHijackWithTLS(t *testing.T) {
	results := make(chan error, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _, err = handoff.FromHijack(c, rw)
			_ = c.Close()
		}
		results <- err
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	must(t, err)
	if response, err := server.Client().Do(request); err == nil {
		response.Body.Close()
	}
	if err := <-results; !errors.Is(err, errors.ErrUnsupported) {
		t.Fatalf("got %v", err)
	}
}

// A handed connection that is peeked at shows its prefix first.
func TestPeekSeesThePrefix(t *testing.T) {
	listener, address := listen(t)
	peer := dial(t, address)
	head := []byte(headOfBytes(9000))
	for _, prefixBytes := range []int{0, 1, 20, 5000, len(head) - 1, len(head)} {
		client, served := tcpPair(t)
		taken := accepted(listener)
		must(t, peer.SendConn(testContext(t), served, handoff.Meta{Prefix: slices.Clone(head[:prefixBytes])}))
		conn := <-taken
		send(t, client, string(head[prefixBytes:])+"rest")
		must(t, client.CloseWrite())
		request, err := handoff.PeekHTTP1(testContext(t), conn)
		if err != nil || request.Host != "a" || conn.Buffered() != prefixBytes {
			t.Fatalf("a prefix of %d bytes: %v", prefixBytes, err)
		}
		if all, err := io.ReadAll(conn); err != nil || string(all) != string(head)+"rest" {
			t.Fatalf("%d bytes are read, %v", len(all), err)
		}
		must(t, conn.Close())
	}
}
