package handoff_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/nearcall/nearcall/handoff"
)

// testTimeout ends what would otherwise wait for ever.
const testTimeout = 30 * time.Second

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func listen(t *testing.T, options ...handoff.Option) (*handoff.Listener, string) {
	t.Helper()
	address := newAddress(t)
	l, err := handoff.Listen(address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, address
}

func dial(t *testing.T, address string, options ...handoff.Option) *handoff.Peer {
	t.Helper()
	p, err := handoff.Dial(testContext(t), address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// tcpPair returns both ends of a TCP connection.
func tcpPair(t *testing.T) (client, served *net.TCPConn) {
	t.Helper()
	needsSockets(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = dialled.Close(), accepted.Close() })
	return dialled.(*net.TCPConn), accepted.(*net.TCPConn)
}

// accepted runs Accept beside the test.
func accepted(l net.Listener) <-chan *handoff.Conn {
	conns := make(chan *handoff.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			close(conns)
			return
		}
		conns <- c.(*handoff.Conn)
	}()
	return conns
}

func TestConnectionWithPrefixAndMessage(t *testing.T) {
	l, address := listen(t)
	p := dial(t, address)
	client, served := tcpPair(t)
	remote, local := served.RemoteAddr(), served.LocalAddr()
	conns := accepted(l)
	sent := handoff.Meta{Name: "shop", Message: []byte("for you"), Prefix: []byte("read before, ")}
	if err := p.SendConn(testContext(t), served, sent); err != nil {
		t.Fatal(err)
	}
	if _, err := served.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the giver still has the connection: %v", err)
	}
	c := <-conns
	if c.Meta().Name != "shop" || string(c.Meta().Message) != "for you" {
		t.Errorf("what came with it: %+v", c.Meta())
	}
	if c.RemoteAddr().String() != remote.String() || c.LocalAddr().String() != local.String() {
		t.Errorf("addresses %v and %v, they were %v and %v", c.LocalAddr(), c.RemoteAddr(), local, remote)
	}
	if _, err := io.WriteString(client, "read after"); err != nil {
		t.Fatal(err)
	}
	if err := client.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); string(got) != "read before, read after" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := io.WriteString(c, "answer"); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(client); string(got) != "answer" || err != nil {
		t.Errorf("the client read %q, %v", got, err)
	}
}

func TestHTTPServerIsUnchanged(t *testing.T) {
	l, address := listen(t)
	p := dial(t, address)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Host+" "+r.RemoteAddr)
	})}
	go func() { _ = server.Serve(l) }()
	client, served := tcpPair(t)
	prefix := []byte("GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n")
	if err := p.SendConn(testContext(t), served, handoff.Meta{Prefix: prefix}); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "shop.example " + client.LocalAddr().String()
	if got, err := io.ReadAll(response.Body); string(got) != want || err != nil {
		t.Errorf("answered %q, %v; want %q", got, err, want)
	}
}

func TestNobodyAcceptsInTime(t *testing.T) {
	_, address := listen(t)
	p := dial(t, address)
	client, served := tcpPair(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	err := p.SendConn(ctx, served, handoff.Meta{})
	var failure *handoff.Error
	if !errors.As(err, &failure) || failure.Reason != handoff.ReasonRecalled || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("given in vain: %v", err)
	}
	if _, err := io.WriteString(served, "still mine"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("still mine"))
	if _, err := io.ReadFull(client, got); string(got) != "still mine" || err != nil {
		t.Errorf("the client read %q, %v", got, err)
	}
	if p.Pending() != 0 {
		t.Errorf("%d handoffs are pending", p.Pending())
	}
}

func TestHandBack(t *testing.T) {
	l, address := listen(t)
	back := make(chan *handoff.Conn, 1)
	p := dial(t, address, handoff.WithTakeBack(func(c *handoff.Conn) { back <- c }))
	client, served := tcpPair(t)
	conns := accepted(l)
	if err := p.SendConn(testContext(t), served, handoff.Meta{Prefix: []byte("one two")}); err != nil {
		t.Fatal(err)
	}
	c := <-conns
	if _, err := io.ReadFull(c, make([]byte, len("one "))); err != nil {
		t.Fatal(err)
	}
	if err := c.HandBack(testContext(t), []byte("again ")); err != nil {
		t.Fatal(err)
	}
	if err := client.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	returned := <-back
	if got, err := io.ReadAll(returned); string(got) != "again two" || err != nil {
		t.Errorf("came back with %q, %v", got, err)
	}
}

func TestCloseGivesBackWhatWaits(t *testing.T) {
	l, address := listen(t)
	p := dial(t, address)
	_, served := tcpPair(t)
	given := make(chan error)
	go func() { given <- p.SendConn(testContext(t), served, handoff.Meta{}) }()
	for p.Pending() == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := l.Shutdown(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := <-given; !errors.Is(err, handoff.ErrDraining) && !errors.Is(err, net.ErrClosed) {
		t.Errorf("given to one that stops: %v", err)
	}
	<-p.Done()
	if err := p.SendConn(testContext(t), served, handoff.Meta{}); !errors.Is(err, handoff.ErrDraining) && !errors.Is(err, net.ErrClosed) {
		t.Errorf("given to one that has stopped: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close: %v", err)
	}
}

func TestTakeover(t *testing.T) {
	needsSockets(t)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tcp.Close() }()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = read.Close(), write.Close() }()
	_, address := listen(t, handoff.WithListeners(func(string) []handoff.Item {
		return []handoff.Item{{Name: "web", Listener: tcp}, {Name: "pipe", File: write}}
	}))
	items, err := handoff.Takeover(testContext(t), address)
	if err != nil {
		t.Fatal(err)
	}
	if len(items) != 2 || items[0].Name != "web" || items[1].Name != "pipe" {
		t.Fatalf("took over %+v", items)
	}
	if got, want := items[0].Listener.Addr().String(), tcp.Addr().String(); got != want {
		t.Errorf("the listener is of %s, not %s", got, want)
	}
	if _, err := items[1].File.WriteString("x"); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(read, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	for _, item := range items {
		if err := item.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestPing(t *testing.T) {
	_, address := listen(t)
	if err := dial(t, address).Ping(testContext(t)); err != nil {
		t.Error(err)
	}
}

func TestTLSListenerIsUnchanged(t *testing.T) {
	needsSockets(t)
	l, address := listen(t)
	p := dial(t, address)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.ServerName+" "+r.Proto)
	}))
	server.Listener = l
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	client := server.Client()
	client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		client, served := tcpPair(t)
		return client, p.SendConn(ctx, served, handoff.Meta{})
	}
	response, err := client.Get("https://example.com/")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if got, err := io.ReadAll(response.Body); string(got) != "example.com HTTP/2.0" || err != nil {
		t.Errorf("answered %q, %v", got, err)
	}
}

// A client that has gone meanwhile has no address any more; who asks gets one that
// is empty.
func TestClientHasGone(t *testing.T) {
	needsSockets(t)
	l, address := listen(t)
	p := dial(t, address)
	client, served := tcpPair(t)
	if err := errors.Join(client.SetLinger(0), client.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := served.Read(make([]byte, 1)); err == nil {
		t.Fatal("the client is still there")
	}
	conns := accepted(l)
	if err := p.SendConn(testContext(t), served, handoff.Meta{}); err != nil {
		t.Fatal(err)
	}
	c := <-conns
	if got := c.RemoteAddr(); got == nil || got.Network() != "tcp" {
		t.Errorf("its address is %v", got)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("it can be read")
	}
}

func TestWhatCannotBeGiven(t *testing.T) {
	needsSockets(t)
	_, address := listen(t)
	p := dial(t, address)
	_, served := tcpPair(t)
	pipe, _ := net.Pipe()
	for _, c := range []net.Conn{tls.Server(served, nil), pipe} {
		if err := p.SendConn(testContext(t), c, handoff.Meta{}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("gave a %T: %v", c, err)
		}
	}
	if err := served.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.SendConn(testContext(t), served, handoff.Meta{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("gave a closed connection: %v", err)
	}
	if p.Pending() != 0 || p.Err() != nil {
		t.Errorf("%d are pending, %v", p.Pending(), p.Err())
	}
}

func TestFile(t *testing.T) {
	l, address := listen(t)
	p := dial(t, address)
	read, write, err := os.Pipe()
	must(t, err)
	defer func() { _, _ = read.Close(), write.Close() }()
	given := make(chan error, 1)
	go func() { given <- p.SendFile(testContext(t), write, handoff.Meta{Name: "log"}) }()
	file, m, err := l.AcceptFile(testContext(t))
	must(t, err)
	must(t, <-given)
	if m.Name != "log" || file.Name() != "log" {
		t.Errorf("named %q and %q", m.Name, file.Name())
	}
	_, err = file.WriteString("x")
	must(t, errors.Join(err, file.Close()))
	_, err = write.WriteString("y")
	must(t, errors.Join(err, write.Close()))
	if got, err := io.ReadAll(read); string(got) != "xy" || err != nil {
		t.Errorf("the pipe has %q, %v", got, err)
	}
}

// What a side says when it stops fits a peer that takes no messages.
func TestDrainWithoutMessages(t *testing.T) {
	l, address := listen(t)
	p := dial(t, address, handoff.WithMessageLimit(0))
	must(t, p.Ping(testContext(t)))
	must(t, l.Close())
	<-p.Done()
	if err := p.Err(); errors.Is(err, handoff.ErrProtocol) {
		t.Errorf("the peer drains: %v", err)
	}
}
