//go:build unix

package handoff_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/handoff"
	"github.com/nearcall/nearcall/internal/wire"
)

// clientHello returns what crypto/tls sends first, in one record.
func clientHello(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() { _ = tls.Client(theirs, config).Handshake() }()
	header := make([]byte, 5)
	_, err := io.ReadFull(ours, header)
	must(t, err)
	body := make([]byte, int(header[3])<<8|int(header[4]))
	_, err = io.ReadFull(ours, body)
	must(t, err)
	return append(header, body...)
}

var helloConfig = tls.Config{ServerName: "shop.example", NextProtos: []string{"h2", "http/1.1"}}

// records cuts the body of one record into records of that many bytes.
func records(hello []byte, bytesEach int) (all []byte) {
	for body := range slices.Chunk(hello[5:], bytesEach) {
		all = append(append(all, hello[0], hello[1], hello[2], byte(len(body)>>8), byte(len(body))), body...)
	}
	return all
}

func expectHello(t *testing.T, served *net.TCPConn) {
	t.Helper()
	hello, err := handoff.PeekTLS(t.Context(), served)
	must(t, err)
	if hello.ServerName != "shop.example" || !slices.Equal(hello.SupportedProtos, helloConfig.NextProtos) || len(hello.CipherSuites) == 0 ||
		!slices.Contains(hello.SupportedVersions, tls.VersionTLS13) || hello.Conn != net.Conn(served) {
		t.Errorf("got %+v", hello)
	}
}

func TestPeekTLS(t *testing.T) {
	hello := clientHello(t, &helloConfig)
	for name, data := range map[string][]byte{
		"one record":             hello,
		"two records":            records(hello, len(hello)/2),
		"a header cut in two":    records(hello, 3),
		"a byte in every record": records(hello, 1),
		"bytes behind it":        append(slices.Clone(hello), "more"...),
		"records of two sizes":   append(records(hello[:5+100], 100), records(append(slices.Clone(hello[:5]), hello[105:]...), 700)...),
	} {
		t.Run(name, func(t *testing.T) {
			client, served := tcpPair(t)
			send(t, client, string(data))
			must(t, client.CloseWrite())
			expectHello(t, served)
			if rest, err := io.ReadAll(served); err != nil || !bytes.Equal(rest, data) {
				t.Fatalf("the socket has %d bytes, %v", len(rest), err)
			}
		})
	}
}

// Segments that end anywhere: within a header, within the message.
func TestPeekTLSInSegments(t *testing.T) {
	hello := records(clientHello(t, &helloConfig), 600)
	for _, bytesEach := range []int{1, 3, 500} {
		client, served := tcpPair(t)
		go func() {
			for segment := range slices.Chunk(hello, bytesEach) {
				_, _ = client.Write(segment)
				time.Sleep(time.Duration(bytesEach) * 100 * time.Microsecond)
			}
		}()
		expectHello(t, served)
	}
}

func TestPeekTLSEndsByDeadline(t *testing.T) {
	hello := clientHello(t, &helloConfig)
	for _, have := range []int{0, 1, 4, 5, 8, len(hello) - 1} {
		client, served := tcpPair(t)
		send(t, client, string(hello[:have]))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := handoff.PeekTLS(ctx, served)
		cancel()
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() || errors.Is(err, handoff.ErrNotTLS) {
			t.Errorf("%d bytes: %v", have, err)
		}
	}
}

// One byte a second is slower than any deadline that a front has.
func TestPeekTLSOfASlowClient(t *testing.T) {
	hello := clientHello(t, &helloConfig)
	few := regexp.MustCompile(`after [1-3] bytes`) // two, if the machine is on time
	client, served := tcpPair(t)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for i := range hello {
			_, _ = client.Write(hello[i : i+1])
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
			}
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	if _, err := handoff.PeekTLS(ctx, served); !errors.Is(err, context.DeadlineExceeded) || !few.MatchString(err.Error()) {
		t.Fatalf("got %v", err)
	}
}

func TestPeekTLSRefusesGarbage(t *testing.T) {
	hello := clientHello(t, &helloConfig)
	broken := slices.Clone(hello)
	broken[5+4+34] = 255 // the length of the session's id
	for name, row := range map[string]struct {
		data  []byte
		wants error
		says  string
	}{
		"HTTP":                {[]byte("GET / HTTP/1.1\r\n"), handoff.ErrNotTLS, "looks like HTTP"},
		"SSL 2":               {[]byte("\x80\x2e\x01\x00\x02"), handoff.ErrNotTLS, "type 128"},
		"an alert":            {[]byte("\x15\x03\x01\x00\x02\x02\x28"), handoff.ErrNotTLS, "type 21"},
		"a wrong version":     {[]byte("\x16\x02"), handoff.ErrNotTLS, "version 2"},
		"an empty record":     {[]byte("\x16\x03\x01\x00\x00"), handoff.ErrNotTLS, "0 bytes"},
		"a large record":      {[]byte("\x16\x03\x01\x40\x01"), handoff.ErrNotTLS, "16385 bytes"},
		"another message":     {[]byte("\x16\x03\x01\x00\x10\x02"), handoff.ErrNotTLS, "message of type 2"},
		"an alert behind":     {append(records(hello[:105], 100), "\x15\x03\x01\x00\x02\x02\x28"...), handoff.ErrNotTLS, "type 21"},
		"nothing in it":       {[]byte("\x16\x03\x01\x00\x04\x01\x00\x00\x00"), handoff.ErrNotTLS, "tls:"},
		"a broken one":        {broken, handoff.ErrNotTLS, "tls:"},
		"over the limit":      {[]byte("\x16\x03\x01\x40\x00\x01\x01\x00\x00"), handoff.ErrTooLarge, "65540 bytes"},
		"far over the limit":  {[]byte("\x16\x03\x01\x40\x00\x01\xff\xff\xff"), handoff.ErrTooLarge, "ClientHello"},
		"too many records":    {tooManyRecords(), handoff.ErrTooLarge, "65536 bytes"},
		"an end in the midst": {hello[:200], io.ErrUnexpectedEOF, "after 200 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			client, served := tcpPair(t)
			send(t, client, string(row.data))
			if errors.Is(row.wants, io.ErrUnexpectedEOF) {
				must(t, client.CloseWrite())
			}
			if _, err := handoff.PeekTLS(t.Context(), served); !errors.Is(err, row.wants) || !strings.Contains(err.Error(), row.says) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

// tooManyRecords is a ClientHello that fits the limit in records that do not.
func tooManyRecords() []byte {
	hello := make([]byte, 5+4+wire.PeekBytesMax/2)
	copy(hello, []byte{0x16, 3, 1, 0, 0, 1, 0, 0x80, 0})
	return records(hello, 1)
}

// tlsBackend serves HTTPS, HTTP/2 too, on connections that were peeked at.
func tlsBackend(t *testing.T) (address string, hellos <-chan *tls.ClientHelloInfo) {
	t.Helper()
	seen := make(chan *tls.ClientHelloInfo, 4)
	backend := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	backend.EnableHTTP2 = true
	backend.Listener = &peekedListener{Listener: backend.Listener, accept: func(conn net.Conn) net.Conn {
		hello, err := handoff.PeekTLS(t.Context(), conn.(*net.TCPConn))
		if err != nil {
			t.Error(err)
		}
		seen <- hello
		return conn
	}}
	backend.StartTLS()
	t.Cleanup(backend.Close)
	return backend.Listener.Addr().String(), seen
}

func TestPeekTLSWithCurl(t *testing.T) {
	address, hellos := tlsBackend(t)
	_, port, err := net.SplitHostPort(address)
	must(t, err)
	for _, row := range []struct{ option, proto, offers string }{{"--http2", "HTTP/2.0", "h2"}, {"--http1.1", "HTTP/1.1", "http/1.1"}} {
		got := curl(t, row.option, "--insecure", "--resolve", "shop.example:"+port+":127.0.0.1", "https://shop.example:"+port+"/")
		if hello := <-hellos; hello == nil || got != row.proto || hello.ServerName != "shop.example" || hello.SupportedProtos[0] != row.offers {
			t.Errorf("curl %s got %q for %+v", row.option, got, hello)
		}
	}
}

func TestPeekTLSWithOpenSSL(t *testing.T) {
	address, hellos := tlsBackend(t)
	for _, version := range []string{"-tls1_2", "-tls1_3"} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		run := exec.CommandContext(ctx, "openssl", "s_client", "-quiet", "-no_ign_eof", version, "-connect", address, "-servername", "shop.example", "-alpn", "http/1.1")
		run.Stdin = strings.NewReader("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		out, err := run.CombinedOutput()
		cancel()
		if hello := <-hellos; hello == nil || hello.ServerName != "shop.example" || !slices.Equal(hello.SupportedProtos, []string{"http/1.1"}) {
			t.Errorf("%s: %+v", version, hello)
		}
		if err != nil || !bytes.Contains(out, []byte("BEGIN CERTIFICATE")) && !bytes.Contains(out, []byte("O = Acme Co")) {
			t.Errorf("openssl: %v\n%s", err, out)
		}
	}
}

func TestPeekTLSWithinItsRange(t *testing.T) {
	for _, bytes := range []int{-1, 0, wire.PeekBytesMax + 1} {
		_, err := handoff.PeekTLSWithin(t.Context(), nil, bytes)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("PeekTLSWithin: %d is out of range (1 to %d)", bytes, wire.PeekBytesMax)) {
			t.Errorf("%d: %v", bytes, err)
		}
	}
}
