package front_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/pires/go-proxyproto"
)

const behindBalancer = `
[[listen]]
name = "web"
address = "tcp:127.0.0.1:0"
proxy_protocol = true
[[route]]
name = "all"
host = "*"
backend = "a"
[backend.a]
sockets = ["unix:DIR/a.sock"]
[limits]
held_per_client_max = 5
[log]
handoffs = true
`

// What a load balancer says of the client is what the process sees, however it comes, and
// the log too. The rest of the connection is untouched.
func TestProxyProtocol(t *testing.T) {
	s := newSite(t)
	s.backend("a")
	port := s.serve(behindBalancer)
	source, destination := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 1234}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}
	six := &net.TCPAddr{IP: net.ParseIP("2001:db8::7"), Port: 1234}
	text := func(version byte, source, destination net.Addr) string {
		header, err := proxyproto.HeaderProxyFromAddrs(version, source, destination).Format()
		must(t, err)
		return string(header)
	}
	for name, row := range map[string]struct{ header, client string }{
		"version 1":          {text(1, source, destination), "192.0.2.7:1234"},
		"version 1, IPv6":    {text(1, six, six), "[2001:db8::7]:1234"},
		"version 2":          {text(2, source, destination), "192.0.2.7:1234"},
		"version 2, IPv6":    {text(2, six, six), "[2001:db8::7]:1234"},
		"unknown":            {"PROXY UNKNOWN\r\n", "127.0.0.1:"},
		"the balancer's own": {text(2, &net.IPAddr{}, &net.IPAddr{}), "127.0.0.1:"},
	} {
		for _, pieces := range []int{1, 2} {
			t.Run(fmt.Sprint(name, " in ", pieces), func(t *testing.T) {
				connection := dial(t, port)
				sent := row.header + "POST /it HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"
				if pieces == 2 {
					write(t, connection, sent[:3])
					sent = sent[3:]
				}
				write(t, connection, sent)
				if got := readAll(t, connection); !strings.Contains(got, "/it from "+row.client) || !strings.Contains(got, `body "body"`) {
					t.Errorf("got %q", got)
				}
			})
		}
	}
	s.front.says(t, `msg="handed over" client=192.0.2.7:1234 listener=web route=all backend=a socket=unix:\S+/a.sock host=h path=/it looked=\S+ waited=\S+`)
}

// Who does not say who the client is, is refused: it could be anybody.
func TestProxyProtocolMissing(t *testing.T) {
	s := newSite(t)
	s.backend("a")
	port := s.serve(behindBalancer)
	for _, sent := range []string{
		"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "PROXY TCP4 1.2.3.4\r\n", "PROXY " + strings.Repeat("x", 200), "\r\n\r\n\x00\r\nQUIT\n\x31\x11\x00\x0c123456789012",
	} {
		connection := dial(t, port)
		write(t, connection, sent)
		if got := readAll(t, connection); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
			t.Errorf("%q got %q, want 400", sent, got)
		}
	}
}

// Behind a load balancer each of its clients has what a client may have, and no more.
func TestProxyProtocolLimits(t *testing.T) {
	s := newSite(t)
	s.backend("a")
	port := s.serve(behindBalancer + metricsPart)
	header := func(host int) string { return fmt.Sprintf("PROXY TCP4 192.0.2.%d 192.0.2.1 1234 80\r\n", host) }
	for i := range 5 {
		write(t, dial(t, port), header(7)+"GET")
		s.awaitMetric("nearcall_front_connections_held", float64(i+1))
	}
	for host, want := range map[int]string{7: "HTTP/1.1 503 ", 8: "HTTP/1.1 200 "} {
		connection := dial(t, port)
		_, err := io.WriteString(connection, header(host)+"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		must(t, err)
		if got := readAll(t, connection); !strings.HasPrefix(got, want) {
			t.Errorf("client %d got %q, want %q", host, got, want)
		}
	}
}

// A real balancer that speaks both versions, and asks whether the front is well meanwhile.
const balancer = `
defaults
    mode tcp
    timeout connect 10s
    timeout client 30s
    timeout server 30s
listen one
    bind 127.0.0.1:ONE
    server front 127.0.0.1:FRONT send-proxy check check-send-proxy inter 50ms
listen two
    bind 127.0.0.1:TWO
    server front 127.0.0.1:FRONT send-proxy-v2 check check-send-proxy inter 50ms
`

func TestBehindHAProxy(t *testing.T) {
	s := newSite(t)
	s.backend("a")
	front := s.serve(behindBalancer + metricsPart)
	one, two := freePort(t), freePort(t)
	configuration := s.path("haproxy.cfg")
	text := strings.NewReplacer("ONE", one, "TWO", two, "FRONT", front).Replace(balancer)
	must(t, os.WriteFile(configuration, []byte(text), 0o600))
	start(t, nil, "haproxy", "-db", "-f", configuration)
	for name, port := range map[string]string{"version 1": one, "version 2": two} {
		await(t, name+": haproxy listens", func() bool {
			connection, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err != nil {
				return false
			}
			connection.Close()
			return true
		})
		url := "http://127.0.0.1:" + port + "/"
		out := output(t, "curl", "-sS", "-H", "Host: h", "-w", "by %{local_port}\n", url, url)
		asked := regexp.MustCompile(`from 127\.0\.0\.1:(\d+) `).FindAllStringSubmatch(out, -1)
		by := regexp.MustCompile(`by (\d+)`).FindStringSubmatch(out)
		if len(asked) != 2 || len(by) != 2 || asked[0][1] != by[1] || asked[1][1] != by[1] {
			t.Errorf("%s: curl printed %q, want its own address twice", name, out)
		}
	}
	await(t, "the front was asked whether it is well", func() bool {
		answered, found := s.metric(`nearcall_front_connections_answered_total{status="none"}`)
		return found && answered > 0
	})
	if malformed, _ := s.metric(`nearcall_front_connections_answered_total{status="400"}`); malformed > 0 {
		t.Errorf("%v connections were not understood", malformed)
	}
}
