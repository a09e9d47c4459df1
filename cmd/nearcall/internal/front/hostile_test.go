package front_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

const strict = plain + `
[timeouts]
peek_ms = 300
linger_ms = 300
[limits]
head_bytes_max = 4096
held_max = 8
held_per_client_max = 5
`

// What a client does wrong is answered, also when it has sent more than was read.
func TestAnswers(t *testing.T) {
	s := newSite(t)
	s.backend("a")
	s.backend("b")
	port := s.serve(strict)
	head := "GET / HTTP/1.1\r\nHost: a.example\r\n"
	for name, row := range map[string]struct {
		sent   string
		end    bool
		status int
	}{
		"silent":            {"", false, 408},
		"half a head":       {head, false, 408},
		"ends in the head":  {head, true, 400},
		"large head":        {head + "X: " + strings.Repeat("x", 4096) + "\r\n\r\n", false, 431},
		"endless head":      {head + "X: " + strings.Repeat("x", 1<<18), false, 431},
		"largest head":      {head + "X: " + strings.Repeat("x", 4096-len(head)-7) + "\r\n\r\n", false, 200},
		"one byte more":     {head + "X: " + strings.Repeat("x", 4096-len(head)-6) + "\r\n\r\n", false, 431},
		"no request":        {"hello\r\n\r\n", false, 400},
		"not text":          {"\x00\x01\x02", false, 400},
		"two hosts":         {head + "Host: b.example\r\n\r\n", false, 400},
		"no such host":      {"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", false, 421},
		"no host":           {"GET / HTTP/1.0\r\n\r\n", false, 421},
		"SSH":               {"SSH-2.0-OpenSSH_9.2\r\n", false, 400},
		"SMTP":              {"EHLO client.example\r\n", false, 400},
		"HTTP/1.2":          {"GET / HTTP/1.2\r\nHost: a.example\r\n\r\n", false, 400},
		"HTTP/2.0":          {"GET / HTTP/2.0\r\nHost: a.example\r\n\r\n", false, 400},
		"HTTP/3.0":          {"GET / HTTP/3.0\r\nHost: a.example\r\n\r\n", false, 400},
		"HTTP/2 in the raw": {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false, 421},
		"body not read":     {"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000), false, 421},
	} {
		t.Run(name, func(t *testing.T) {
			connection := dial(t, port)
			write(t, connection, row.sent)
			if row.end {
				must(t, connection.(*net.TCPConn).CloseWrite())
			}
			must(t, connection.SetReadDeadline(time.Now().Add(patience)))
			first := make([]byte, len("HTTP/1.1 200"))
			if _, err := io.ReadFull(connection, first); err != nil || string(first) != fmt.Sprintf("HTTP/1.1 %d", row.status) {
				t.Fatalf("got %q, %v, want %d", first, err, row.status)
			}
			if row.status != 200 {
				if rest := readAll(t, connection); !strings.Contains(rest, "\r\nConnection: close\r\n") {
					t.Errorf("the answer is %q", rest)
				}
			}
		})
	}
}

// With defer_accept a client costs the front nothing until it has sent something;
// then it may be as slow as any other.
func TestDeferAccept(t *testing.T) {
	s := newSite(t)
	s.backend("a")
	port := s.serve(strings.Replace(plain, `name = "web"`, "name = \"web\"\ndefer_accept = true", 1) + metricsPart)
	connection := dial(t, port)
	for range 3 {
		if out := output(t, "curl", "-sS", "-H", "Host: a.example", "http://127.0.0.1:"+port); !strings.HasPrefix(out, "a pid") {
			t.Errorf("curl printed %q", out)
		}
	}
	s.awaitMetric(`nearcall_front_connections_accepted_total{listener="web"}`, 3)
	write(t, connection, "GET / HTTP/1.1\r\n")
	s.awaitMetric("nearcall_front_connections_held", 1)
	write(t, connection, "Host: a.example\r\nConnection: close\r\n\r\n")
	if text := readAll(t, connection); !strings.Contains(text, "\r\n\r\na pid") {
		t.Errorf("got %q", text)
	}
	malformed := dial(t, port)
	write(t, malformed, "hello\r\n\r\n")
	if text := readAll(t, malformed); !strings.HasPrefix(text, "HTTP/1.1 400 ") {
		t.Errorf("got %q, want 400", text)
	}
}

func TestClientThatLeaves(t *testing.T) {
	s := newSite(t)
	port := s.serve(strict)
	connection := dial(t, port)
	must(t, connection.(*net.TCPConn).CloseWrite())
	if text := readAll(t, connection); text != "" {
		t.Errorf("a client that said nothing and ended got %q", text)
	}
}

// Slow clients take the room of their own address, and no more.
func TestLimits(t *testing.T) {
	s := newSite(t)
	s.backend("a")
	s.backend("b")
	port := s.serve(strings.Replace(strict, "peek_ms = 300", "peek_ms = 60000", 1) + metricsPart)
	slow := func(source string, count int) {
		for range count {
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
			connection, err := dialer.Dial("tcp", "127.0.0.1:"+port)
			must(t, err)
			t.Cleanup(func() { connection.Close() })
			write(t, connection, "GET")
		}
	}
	request := func(source string) string {
		return output(t, "curl", "-sS", "--interface", source, "-o", "/dev/null", "-w", "%{http_code}", "-H", "Host: a.example", "http://127.0.0.1:"+port)
	}
	slow("127.0.0.1", 5)
	s.awaitMetric("nearcall_front_connections_held", 5)
	if first, second := request("127.0.0.1"), request("127.0.0.2"); first != "503" || second != "200" {
		t.Errorf("the slow client got %s, another %s, want 503 and 200", first, second)
	}
	s.awaitMetric("nearcall_front_connections_held", 5) // what was served has left its place
	slow("127.0.0.3", 3)
	s.awaitMetric("nearcall_front_connections_held", 8)
	if another := request("127.0.0.2"); another != "503" {
		t.Errorf("a client got %s with the front full, want 503", another)
	}
	_, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{ServerName: "a.example", InsecureSkipVerify: true})
	if err == nil || !strings.Contains(err.Error(), "internal error") && !strings.Contains(err.Error(), "first record does not look like") {
		t.Errorf("a TLS client got %v with the front full, want an alert", err)
	}
}

// At its limit of descriptors the front goes on with what it has, and accepts again
// when some are free.
func TestDescriptorLimit(t *testing.T) {
	s := newSite(t)
	s.backend("a")
	config := s.configure(plain)
	s.front = start(t, nil, "sh", "-c", `ulimit -n 32; exec "$@"`, "sh", programs.nearcall, "front", config)
	port := s.front.says(t, `msg=listening listener=\S+ address=\S+:(\d+)`)
	s.up("a")
	slow := make([]net.Conn, 40)
	for i := range slow {
		slow[i] = dial(t, port)
		write(t, slow[i], "GET / HTTP/1.1\r\n")
	}
	s.front.says(t, "held_max is 8192, which takes 8228 descriptors, and the process may have 32")
	s.front.says(t, "cannot accept; trying again; all descriptors that the process may have are in use")
	write(t, slow[0], "Host: a.example\r\nConnection: close\r\n\r\n")
	if text := readAll(t, slow[0]); !strings.Contains(text, "\r\n\r\na pid") {
		t.Errorf("got %q", text)
	}
	for _, connection := range slow {
		connection.Close()
	}
	if out := output(t, "curl", "-sS", "-H", "Host: a.example", "http://127.0.0.1:"+port); !strings.HasPrefix(out, "a pid") {
		t.Errorf("curl printed %q", out)
	}
}

const absent = `
[[listen]]
address = "tcp:127.0.0.1:0"
[[route]]
host = "answer"
backend = "answer"
[[route]]
host = "close"
backend = "close"
[[route]]
host = "wait"
backend = "wait"
[[route]]
server_name = "*"
backend = "answer"
[backend.answer]
sockets = ["unix:DIR/answer.sock"]
wait_ms = 0
[backend.close]
sockets = ["unix:DIR/close.sock"]
wait_ms = 0
otherwise = "close"
[backend.wait]
sockets = ["unix:DIR/wait.sock"]
wait_ms = 20000
`

func TestNobodyIsThere(t *testing.T) {
	s := newSite(t)
	port := s.serve(absent)
	get := func(host string) string {
		connection := dial(t, port)
		write(t, connection, "GET / HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
		return readAll(t, connection)
	}
	if text := get("answer"); !strings.HasPrefix(text, "HTTP/1.1 503 ") || !strings.Contains(text, "\r\nRetry-After: 1\r\n") {
		t.Errorf("got %q, want 503", text)
	}
	if text := get("close"); text != "" {
		t.Errorf("got %q, want nothing", text)
	}
	got := make(chan string)
	go func() { got <- get("wait") }()
	s.front.says(t, `no process to give connections to" socket=unix:\S+wait.sock`)
	s.backend("wait")
	if text := <-got; !strings.HasPrefix(text, "HTTP/1.1 200 ") {
		t.Errorf("got %q, want 200", text)
	}
}

// A process that is stopped, or that takes nothing, is passed over; what it was
// offered goes to another.
func TestProcessThatHangs(t *testing.T) {
	for name, hang := range map[string]func(s *site) *process{
		"takes nothing": func(s *site) *process { return s.backend("a1", "-hold") },
		"stopped": func(s *site) *process {
			p := s.backend("a1")
			t.Cleanup(func() { _ = syscall.Kill(p.pid(), syscall.SIGCONT) })
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			hanging := hang(s)
			s.backend("a2")
			port := s.serve(strings.Replace(plain, `"unix:DIR/a.sock"`, `"unix:DIR/a1.sock", "unix:DIR/a2.sock"`, 1) + "\n[timeouts]\nhealth_ms = 200\n")
			s.up("a1", "a2")
			if name == "stopped" {
				must(t, syscall.Kill(hanging.pid(), syscall.SIGSTOP))
			}
			for range 8 {
				if out := output(t, "curl", "-sS", "-H", "Host: a.example", "http://127.0.0.1:"+port); !strings.HasPrefix(out, "a2 pid") {
					t.Fatalf("curl printed %q", out)
				}
			}
		})
	}
}

// Processes that are equally idle get connections in turn.
func TestBalance(t *testing.T) {
	s := newSite(t)
	s.backend("a1")
	s.backend("a2")
	s.backend("a3")
	port := s.serve(strings.Replace(plain, `"unix:DIR/a.sock"`, `"unix:DIR/a1.sock", "unix:DIR/a2.sock", "unix:DIR/a3.sock"`, 1))
	s.up("a1", "a2", "a3")
	counts := map[string]int{}
	const rounds = 4
	for range 3 * rounds {
		out := output(t, "curl", "-sS", "-H", "Host: a.example", "http://127.0.0.1:"+port)
		counts[strings.Fields(out)[0]]++
	}
	for _, name := range []string{"a1", "a2", "a3"} {
		if counts[name] != rounds {
			t.Errorf("the processes got %v", counts)
			break
		}
	}
}

const metricsPart = `
[metrics]
address = "unix:DIR/metrics.sock"
`

// metric returns a value of the front's metrics.
func (s *site) metric(name string) (value float64, found bool) {
	s.t.Helper()
	for line := range strings.Lines(s.ask("/metrics")) {
		if rest, is := strings.CutPrefix(line, name+" "); is {
			_, err := fmt.Sscan(rest, &value)
			must(s.t, err)
			return value, true
		}
	}
	return 0, false
}

func (s *site) awaitMetric(name string, want float64) {
	s.t.Helper()
	await(s.t, fmt.Sprint(name, " is ", want), func() bool {
		value, found := s.metric(name)
		return found && value == want
	})
}

func (s *site) ask(path string) string {
	s.t.Helper()
	return output(s.t, "curl", "-sS", "--unix-socket", s.path("metrics.sock"), "http://metrics"+path)
}

func TestMetrics(t *testing.T) {
	s := newSite(t)
	s.backend("a")
	port := s.serve(strict + metricsPart)
	for range 3 {
		output(t, "curl", "-sS", "-H", "Host: a.example", "http://127.0.0.1:"+port)
	}
	output(t, "curl", "-sS", "http://127.0.0.1:"+port)
	socket := fmt.Sprintf(`{backend="a",socket="unix:%s"}`, s.path("a.sock"))
	for name, want := range map[string]float64{
		`nearcall_front_connections_accepted_total{listener="web"}`:                              4,
		`nearcall_front_connections_handed_total{backend="a",route="a.example"}`:                 3,
		`nearcall_front_connections_answered_total{status="421"}`:                                1,
		`nearcall_front_connections_returned_total`:                                              0,
		`nearcall_front_backend_up` + socket:                                                     1,
		`nearcall_front_backend_pending` + socket:                                                0,
		`nearcall_front_give_seconds_count`:                                                      3,
		fmt.Sprintf(`nearcall_front_backend_up{backend="b",socket="unix:%s"}`, s.path("b.sock")): 0,
	} {
		s.awaitMetric(name, want)
	}
	health := s.ask("/healthz")
	if !strings.HasPrefix(health, "ok\n") || !strings.Contains(health, "a.sock up\n") || !strings.Contains(health, "b.sock down\n") {
		t.Errorf("/healthz says %q", health)
	}
}

// The front holds nothing of a connection that it has handed over.
func TestNothingIsHeld(t *testing.T) {
	s := newSite(t)
	s.backend("a")
	port := s.serve(plain + metricsPart + "\n[limits]\nheld_max = 100000\nheld_per_client_max = 100000\n")
	hand := func(count int) {
		for range count {
			connection := dial(t, port)
			write(t, connection, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
			if n, err := connection.Read(make([]byte, 1)); n != 1 {
				t.Fatal(err)
			}
		}
	}
	hand(10)
	before := s.front.descriptors(t)
	s.awaitMetric("nearcall_front_connections_held", 0)
	goroutines, _ := s.metric("go_goroutines")
	const many = 500
	hand(many)
	s.awaitMetric("nearcall_front_connections_held", 0)
	if after := s.front.descriptors(t); after > before+2 {
		t.Errorf("%d descriptors with %d more connections, %d before", after, many, before)
	}
	if after, _ := s.metric("go_goroutines"); after > goroutines+5 {
		t.Errorf("%v goroutines with %d more connections, %v before", after, many, goroutines)
	}
}

// A client of package net/http, through a Unix socket of the front.
func TestUnixListener(t *testing.T) {
	s := newSite(t)
	s.backend("a")
	s.front = start(t, nil, programs.nearcall, "front", s.configure(strings.Replace(plain, "tcp:127.0.0.1:0", "unix:DIR/front.sock", 1)))
	s.front.says(t, "msg=serving")
	connect := func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", s.path("front.sock")) }
	client := http.Client{Transport: &http.Transport{DialContext: connect}}
	response, err := client.Get("http://a.example/")
	must(t, err)
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || !strings.HasPrefix(string(text), "a pid ") {
		t.Errorf("got %q, %v", text, err)
	}
}
