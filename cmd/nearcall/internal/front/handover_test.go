package front_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
)

// plain is one listener, and two hosts of which one has a path of its own.
const plain = `
[[listen]]
name = "web"
address = "tcp:127.0.0.1:0"

[[route]]
host = "a.example"
backend = "a"

[[route]]
host = "*.example"
backend = "b"

[[route]]
host = "a.example"
path = "/b"
backend = "b"

[backend.a]
sockets = ["unix:DIR/a.sock"]
[backend.b]
sockets = ["unix:DIR/b.sock"]
`

func TestRoutesOfRealClients(t *testing.T) {
	s := newSite(t)
	a, b := s.backend("a"), s.backend("b")
	port := s.serve(plain)
	for _, row := range []struct {
		host, path string
		by         *process
		name       string
	}{
		{"a.example", "/", a, "a"}, {"A.Example:80", "/x", a, "a"}, {"a.example", "/b/x", b, "b"}, {"other.example", "/", b, "b"},
	} {
		out := output(t, "curl", "-sS", "-H", "Host: "+row.host, "http://127.0.0.1:"+port+row.path)
		want := fmt.Sprintf("%s pid %d HTTP/1.1 %s %s from 127.0.0.1:", row.name, row.by.pid(), row.host, row.path)
		if !strings.HasPrefix(out, want) {
			t.Errorf("curl printed %q, want %q", out, want)
		}
	}
}

// A connection stays one when it is kept alive, and a body is whole wherever it was
// when the connection was handed over.
func TestKeepAliveAndBodies(t *testing.T) {
	s := newSite(t)
	s.backend("a")
	s.backend("b")
	port := s.serve(plain)
	url := "http://127.0.0.1:" + port + "/"
	out := output(t, "curl", "-sS", "-H", "Host: a.example", url, url, "-d", "text")
	from := regexp.MustCompile(`from (\S+) body "text"`).FindAllStringSubmatch(out, -1)
	if len(from) != 2 || from[0][1] != from[1][1] {
		t.Errorf("curl printed %q, want two answers on one connection", out)
	}
	size := 8 << 20
	large := output(t, "curl", "-sS", "-H", "Host: a.example", fmt.Sprintf("%sbytes/%d", url, size))
	if len(large) != size {
		t.Errorf("%d bytes arrived, want %d", len(large), size)
	}
	// Two requests at once.
	connection := dial(t, port)
	write(t, connection, strings.Repeat("GET /p HTTP/1.1\r\nHost: a.example\r\n\r\n", 2)+"GET /p HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
	if text := readAll(t, connection); strings.Count(text, "a.example /p") != 3 {
		t.Errorf("pipelined requests got %q", text)
	}
}

// A kept-alive connection goes where each of its requests belongs.
func TestHandBack(t *testing.T) {
	s := newSite(t)
	a, b := s.backend("a", "-hosts", "a.example"), s.backend("b", "-hosts", "b.example")
	port := s.serve(plain)
	url := "http://127.0.0.1:" + port
	args := []string{"-sS"}
	var want []string
	for i := range 6 {
		host, by := "a.example", a
		if i%2 == 1 {
			host, by = "b.example", b
		}
		args = append(args, "--next", "-sS", "-w", "connects %{num_connects}\n", "-H", "Host: "+host, "-d", fmt.Sprint("body", i), url)
		want = append(want, fmt.Sprintf(`pid %d HTTP/1.1 %s / from \S+ body "body%d"`, by.pid(), host, i))
	}
	out := output(t, "curl", append(args[:1:1], args[2:]...)...)
	if !regexp.MustCompile(`(?s)` + strings.Join(want, ".*")).MatchString(out) {
		t.Errorf("curl printed\n%s\nwant\n%s", out, strings.Join(want, "\n"))
	}
	if strings.Count(out, "connects 1") != 1 || strings.Count(out, "connects 0") != 5 {
		t.Errorf("curl printed\n%s\nwant one connection", out)
	}
}

// A backend that gets a request which is its own and hands it back gets no third
// chance.
func TestHandBackOfOnesOwn(t *testing.T) {
	s := newSite(t)
	s.backend("a", "-hosts", "other")
	s.backend("b")
	port := s.serve(plain)
	out := output(t, "curl", "-sSi", "-H", "Host: a.example", "http://127.0.0.1:"+port)
	if !strings.HasPrefix(out, "HTTP/1.1 421 ") || !strings.Contains(out, "Connection: close") {
		t.Errorf("curl printed %q, want 421", out)
	}
}

// A program that is run for each connection gets those of which nothing was read; on
// others the client is told to open a new one.
func TestHandBackToAProgram(t *testing.T) {
	s := newSite(t)
	s.backend("a", "-hosts", "a.example")
	program := start(t, nil, programs.nearcall, "receive", "--address", "unix:"+s.path("b.sock"), "--",
		"sh", "-c", `while read -r line && [ ${#line} -gt 1 ]; do :; done; printf 'HTTP/1.0 200 OK\r\n\r\nfrom sh'`)
	program.says(t, "Taking connections")
	port := s.serve(plain)
	url := "http://127.0.0.1:" + port
	if out := output(t, "curl", "-sS", "-H", "Host: b.example", url); out != "from sh" {
		t.Errorf("curl printed %q", out)
	}
	out := output(t, "curl", "-sS", "-H", "Host: a.example", url, "--next", "-sSi", "-H", "Host: b.example", url)
	if !strings.HasPrefix(out, "a pid") || !strings.Contains(out, "HTTP/1.1 421 ") {
		t.Errorf("curl printed %q, want 421", out)
	}
}

const encrypted = `
[[listen]]
address = "tcp:127.0.0.1:0"

[[route]]
server_name = "a.example"
backend = "a"
[[route]]
server_name = "*.b.example"
backend = "b"
[[route]]
host = "*"
backend = "plain"

[backend.a]
sockets = ["unix:DIR/a.sock"]
[backend.b]
sockets = ["unix:DIR/b.sock"]
[backend.plain]
sockets = ["unix:DIR/plain.sock"]
`

// HTTP/2 is spoken with the backend, which has the certificate; the port speaks
// HTTP/1 as well.
func TestTLSByServerName(t *testing.T) {
	s := newSite(t)
	s.backend("a", "-certificate", s.certificate("a.example"))
	s.backend("b", "-certificate", s.certificate("*.b.example"))
	s.backend("plain")
	port := s.serve(encrypted)
	for host, name := range map[string]string{"a.example": "a", "x.b.example": "b"} {
		certificate := s.path("a.example.pem")
		if name == "b" {
			certificate = s.path("*.b.example.pem")
		}
		url := fmt.Sprintf("https://%s:%s/", host, port)
		out := output(t, "curl", "-sS", "--http2", "--cacert", certificate, "--resolve", host+":"+port+":127.0.0.1", url, url)
		if strings.Count(out, fmt.Sprintf("%s pid ", name)) != 2 || !strings.Contains(out, "HTTP/2.0 "+host) {
			t.Errorf("curl printed %q", out)
		}
		seen, err := try(t, "", "openssl", "s_client", "-connect", "127.0.0.1:"+port, "-servername", host, "-alpn", "h2,http/1.1")
		if err != nil || !strings.Contains(seen, "subject=CN = "+strings.TrimSuffix(strings.TrimPrefix(certificate, s.directory+"/"), ".pem")) || !strings.Contains(seen, "ALPN protocol: h2") {
			t.Errorf("openssl: %v\n%s", err, seen)
		}
	}
	if out := output(t, "curl", "-sS", "http://127.0.0.1:"+port); !strings.HasPrefix(out, "plain pid ") {
		t.Errorf("without TLS curl printed %q", out)
	}
}

func TestUnknownServerName(t *testing.T) {
	s := newSite(t)
	port := s.serve(encrypted)
	for _, name := range []string{"c.example", ""} {
		_, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if err == nil || err.Error() != "remote error: tls: unrecognized name" {
			t.Errorf("server name %q: %v, want the alert unrecognized_name", name, err)
		}
	}
}

func TestLargeClientHello(t *testing.T) {
	s := newSite(t)
	s.backend("a", "-certificate", s.certificate("a.example"))
	port := s.serve(encrypted + "\n[limits]\nhead_bytes_max = 4096\n")
	for _, row := range []struct {
		protocolBytes int
		fits          bool
	}{{1000, true}, {4000, false}} {
		var protocols []string
		for range row.protocolBytes / 100 {
			protocols = append(protocols, strings.Repeat("p", 99))
		}
		_, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{ServerName: "a.example", InsecureSkipVerify: true, NextProtos: protocols})
		refused := err != nil && strings.Contains(err.Error(), "error decoding message")
		if refused == row.fits {
			t.Errorf("a ClientHello with %d bytes of protocols: %v", row.protocolBytes, err)
		}
	}
}

// A ClientHello in any pieces is understood.
func TestSlowClientHello(t *testing.T) {
	s := newSite(t)
	s.backend("a", "-certificate", s.certificate("a.example"))
	port := s.serve(encrypted)
	connection := tls.Client(trickle{dial(t, port)}, &tls.Config{ServerName: "a.example", InsecureSkipVerify: true})
	must(t, connection.Handshake())
	if name := connection.ConnectionState().PeerCertificates[0].Subject.CommonName; name != "a.example" {
		t.Errorf("the certificate is for %q", name)
	}
}

// A trickle writes byte by byte.
type trickle struct{ net.Conn }

func (c trickle) Write(data []byte) (int, error) {
	for i := range data {
		if _, err := c.Conn.Write(data[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(data), nil
}

func dial(t *testing.T, port string) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", "127.0.0.1:"+port)
	must(t, err)
	t.Cleanup(func() { connection.Close() })
	return connection
}

func write(t *testing.T, connection net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(connection, text)
	must(t, err)
}

func readAll(t *testing.T, connection net.Conn) string {
	t.Helper()
	text, err := io.ReadAll(connection)
	if err != nil {
		t.Errorf("after %q: %v", text, err)
	}
	return string(text)
}
