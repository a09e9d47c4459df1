package front_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const controlPart = `
[control]
address = "unix:DIR/control.sock"
[timeouts]
hand_back_ms = 300
`

// A reload changes routes, backends and listeners, and no connection notices.
func TestReload(t *testing.T) {
	s := newSite(t)
	s.backend("a")
	s.backend("b")
	port := s.serve(plain)
	s.up("a", "b")
	waiting := dial(t, port)
	write(t, waiting, "GET / HTTP/1.1\r\nHost: a.example\r\n")
	// Connections are accepted in turn: when a later one was served, this one began.
	output(t, "curl", "-sS", "-H", "Host: a.example", "http://127.0.0.1:"+port)
	other := filepath.Join(s.directory, "other.sock")
	s.configure(strings.NewReplacer(`host = "a.example"`, `host = "new.example"`, `host = "*.example"`, `host = "a.example"`).Replace(plain) +
		"\n[[listen]]\nname = \"other\"\naddress = \"unix:DIR/other.sock\"\n")
	s.hangUp()
	for host, name := range map[string]string{"a.example": "b", "new.example": "a"} {
		if out := output(t, "curl", "-sS", "-H", "Host: "+host, "http://127.0.0.1:"+port); !strings.HasPrefix(out, name+" pid") {
			t.Errorf("%s: curl printed %q", host, out)
		}
	}
	if out := output(t, "curl", "-sS", "--unix-socket", other, "http://new.example/"); !strings.HasPrefix(out, "a pid") {
		t.Errorf("the new listener: curl printed %q", out)
	}
	// It began before, and keeps the routes it began with.
	write(t, waiting, "Connection: close\r\n\r\n")
	if text := readAll(t, waiting); !strings.Contains(text, "\r\n\r\na pid") {
		t.Errorf("got %q", text)
	}
	s.configure(plain)
	s.hangUp()
	if connection, err := net.Dial("unix", other); err == nil {
		connection.Close()
		t.Error("a listener that the configuration has no more still listens")
	}
}

// hangUp reloads, and waits until the configuration is used.
func (s *site) hangUp() {
	s.t.Helper()
	before := strings.Count(s.front.log(), "the configuration is")
	must(s.t, s.front.command.Process.Signal(syscall.SIGHUP))
	await(s.t, "the configuration is used", func() bool { return strings.Count(s.front.log(), "the configuration is") > before })
}

// Each reload changes the routes and takes the other backend. No request fails, and
// channels that no configuration has are not kept.
func TestReloadUnderLoad(t *testing.T) {
	t.Run("waited for", func(t *testing.T) { reloadUnderLoad(t, plain) })
	// Whose request is there as they are accepted are passed on without a goroutine.
	t.Run("deferred", func(t *testing.T) {
		reloadUnderLoad(t, strings.Replace(plain, `name = "web"`, "name = \"web\"\ndefer_accept = true", 1))
	})
}

func reloadUnderLoad(t *testing.T, configuration string) {
	s := newSite(t)
	s.backend("a")
	s.backend("b")
	one := configuration + "\n[timeouts]\nhand_back_ms = 100\n"
	port := s.serve(one)
	s.up("a", "b")
	before := s.front.descriptors(t)
	result := load(t, port, "3", "-H", "Host: a.example", "-H", "Connection: close")
	configurations := []string{strings.ReplaceAll(one, "DIR/a.sock", "DIR/b.sock"), one}
	for i := range 20 {
		s.configure(configurations[i%2])
		s.hangUp()
	}
	check(t, <-result)
	await(t, "the front has as many descriptors as before", func() bool { return s.front.descriptors(t) <= before })
}

// A client that says where it wants to when the backend of that time is gone from
// the configuration goes where the configuration of now says.
func TestReloadWithoutTheBackend(t *testing.T) {
	s := newSite(t)
	a := s.backend("a")
	s.backend("b")
	port := s.serve(plain + metricsPart)
	s.up("a", "b")
	waiting := dial(t, port)
	write(t, waiting, "GET / HTTP/1.1\r\nHost: a.example\r\n")
	s.awaitMetric("nearcall_front_connections_held", 1)
	a.stop(t, syscall.SIGTERM)
	s.configure(strings.ReplaceAll(plain, "DIR/a.sock", "DIR/b.sock") + metricsPart)
	s.hangUp()
	write(t, waiting, "Connection: close\r\n\r\n")
	if text := readAll(t, waiting); !strings.Contains(text, "\r\n\r\nb pid") {
		t.Errorf("got %q", text)
	}
}

// A reload says anew how long a process may leave a connection unanswered.
func TestReloadOfHealth(t *testing.T) {
	s := newSite(t)
	s.backend("a1", "-hold")
	s.backend("a2")
	configuration := func(healthMs string) string {
		return strings.Replace(plain, `"unix:DIR/a.sock"`, `"unix:DIR/a1.sock", "unix:DIR/a2.sock"`, 1) + "\n[timeouts]\nhealth_ms = " + healthMs + "\n"
	}
	const forLong = "3600000"
	port := s.serve(configuration(forLong))
	s.up("a1", "a2")
	s.configure(configuration("50"))
	s.hangUp()
	for range 4 { // Each has its turn.
		out := output(t, "curl", "-sS", "--max-time", fmt.Sprint(patience.Seconds()), "-H", "Host: a.example", "http://127.0.0.1:"+port)
		if !strings.HasPrefix(out, "a2 pid") {
			t.Errorf("curl printed %q", out)
		}
	}
}

func TestReloadOfAnError(t *testing.T) {
	s := newSite(t)
	s.backend("a")
	port := s.serve(plain)
	s.configure("nonsense")
	s.hangUp()
	s.front.says(t, `the configuration is not used; the one before stays" error="\S*front.toml:1:`)
	s.configure(plain + "\n[[listen]]\naddress = \"tcp:192.0.2.1:1\"\n")
	s.hangUp()
	s.front.says(t, `the configuration is not used; the one before stays" error="cannot listen on tcp:192.0.2.1:1`)
	if out := output(t, "curl", "-sS", "-H", "Host: a.example", "http://127.0.0.1:"+port); !strings.HasPrefix(out, "a pid") {
		t.Errorf("curl printed %q", out)
	}
}

// A connection that was accepted finds its backend though the front is told to stop.
func TestDrain(t *testing.T) {
	s := newSite(t)
	s.backend("a")
	port := s.serve(plain + metricsPart)
	waiting := dial(t, port)
	write(t, waiting, "GET / HTTP/1.1\r\n")
	s.awaitMetric("nearcall_front_connections_held", 1)
	must(t, s.front.command.Process.Signal(syscall.SIGTERM))
	s.front.says(t, "draining")
	if health := s.ask("/healthz"); health != "draining\n" {
		t.Errorf("/healthz says %q", health)
	}
	if _, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
		t.Error("it still listens")
	}
	write(t, waiting, "Host: a.example\r\nConnection: close\r\n\r\n")
	if text := readAll(t, waiting); !strings.Contains(text, "\r\n\r\na pid") {
		t.Errorf("got %q", text)
	}
	s.front.end(t)
	if code := s.front.command.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// What was handed over goes on though the front is killed.
func TestDownloadOutlivesTheFront(t *testing.T) {
	s := newSite(t)
	s.backend("a")
	port := s.serve(plain)
	connection := dial(t, port)
	const size = 64 << 20
	write(t, connection, fmt.Sprintf("GET /bytes/%d HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n", size))
	_, err := io.ReadFull(connection, make([]byte, 1<<20))
	must(t, err)
	s.front.stop(t, syscall.SIGKILL)
	rest, err := io.Copy(io.Discard, connection)
	if err != nil || rest < size-1<<20 {
		t.Errorf("%d bytes more arrived: %v", rest, err)
	}
}

// A second signal does not wait for clients.
func TestSecondSignal(t *testing.T) {
	s := newSite(t)
	port := s.serve(plain + metricsPart + "\n[timeouts]\nlinger_ms = 100\n")
	waiting := dial(t, port)
	write(t, waiting, "GET / HTTP/1.1\r\n")
	s.awaitMetric("nearcall_front_connections_held", 1)
	must(t, s.front.command.Process.Signal(syscall.SIGTERM))
	s.front.says(t, "draining")
	began := time.Now()
	await(t, "it ends", func() bool {
		_ = s.front.command.Process.Signal(syscall.SIGTERM)
		select {
		case <-s.front.ended:
			return true
		default:
			return false
		}
	})
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if text := readAll(t, waiting); !strings.HasPrefix(text, "HTTP/1.1 503 ") {
		t.Errorf("got %q, want 503", text)
	}
}

// What cannot be served any more is not taken back: the process answers, who still
// has the connection.
func TestHandBackAtTheEnd(t *testing.T) {
	s := newSite(t)
	s.backend("a", "-hosts", "a.example")
	port := s.serve(plain + metricsPart + "\n[timeouts]\nlinger_ms = 60000\n")
	connection := dial(t, port)
	write(t, connection, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
	if n, err := connection.Read(make([]byte, 4096)); err != nil || n == 0 {
		t.Fatal(err)
	}
	lingering := dial(t, port)
	write(t, lingering, "GET / HTTP/1.1\r\n")
	s.awaitMetric("nearcall_front_connections_held", 1)
	must(t, s.front.command.Process.Signal(syscall.SIGTERM))
	s.front.says(t, "draining")
	await(t, "what is held is given up", func() bool {
		_ = s.front.command.Process.Signal(syscall.SIGTERM)
		return strings.Contains(s.ask("/metrics"), `backend_up{backend="a",socket="unix:`+s.path("a.sock")+`"} 0`)
	})
	write(t, connection, "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n")
	if text := readAll(t, connection); !strings.Contains(text, "Content-Length: 0") {
		t.Errorf("got %q, want what the backend answers", text)
	}
	lingering.Close()
	s.front.end(t)
}

// A successor listens where its own configuration says.
func TestTakeoverWithAnotherAddress(t *testing.T) {
	s := newSite(t)
	s.backend("a")
	port := s.serve(plain + controlPart)
	other := freePort(t)
	s.configure(strings.Replace(plain, "127.0.0.1:0", "127.0.0.1:"+other, 1) + controlPart)
	before := s.front
	s.front = start(t, nil, programs.nearcall, "front", "--takeover", "unix:"+s.path("control.sock"), s.path("front.toml"))
	s.front.says(t, "msg=serving")
	before.end(t)
	if out := output(t, "curl", "-sS", "-H", "Host: a.example", "http://127.0.0.1:"+other); !strings.HasPrefix(out, "a pid") {
		t.Errorf("curl printed %q", out)
	}
	if connection, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
		connection.Close()
		t.Error("the address of before still listens")
	}
}

// The front is replaced again and again under load, by other processes that take
// its listeners over. No request fails.
func TestTakeoverUnderLoad(t *testing.T) {
	s := newSite(t)
	s.backend("a")
	port := s.serve(plain + controlPart)
	s.up("a")
	const restarts = 8
	result := load(t, port, "4", "-H", "Host: a.example", "-H", "Connection: close")
	for range restarts {
		before := s.front
		s.front = start(t, nil, programs.nearcall, "front", "--takeover", "unix:"+s.path("control.sock"), s.path("front.toml"))
		if taken := s.front.says(t, `msg=listening listener=web address=\S+:(\d+)`); taken != port {
			t.Fatalf("it listens on %s, the one before on %s", taken, port)
		}
		s.front.says(t, "msg=serving")
		before.says(t, "a successor has the listeners")
		before.end(t)
	}
	check(t, <-result)
}

// Fronts and backends are replaced at the same time, each before the one before has
// ended. No request fails.
func TestEverythingRestartsUnderLoad(t *testing.T) {
	s := newSite(t)
	two := strings.Replace(plain, `"unix:DIR/a.sock"`, `"unix:DIR/a1.sock", "unix:DIR/a2.sock"`, 1)
	names := []string{"a1", "a2"}
	backends := map[string]*process{}
	for _, name := range names {
		backends[name] = s.backend(name)
	}
	port := s.serve(two + controlPart)
	s.up(names...)
	seconds := restartSeconds(t)
	result := load(t, port, strconv.Itoa(seconds+2), "-H", "Host: a.example", "-H", "Connection: close")
	var fronts []*process
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	for i := 0; time.Now().Before(end); i++ {
		time.Sleep(250 * time.Millisecond) // The load between two restarts is the point.
		name := names[i%len(names)]
		backends[name].stop(t, syscall.SIGTERM)
		fronts = append(fronts, s.front)
		s.front = start(t, nil, programs.nearcall, "front", "--takeover", "unix:"+s.path("control.sock"), s.path("front.toml"))
		backends[name] = s.backend(name)
	}
	for _, before := range fronts {
		before.end(t)
	}
	check(t, <-result)
}

// restartSeconds is how long everything restarts: longer where the environment says so.
func restartSeconds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("NEARCALL_RESTART_SECONDS")
	if text == "" {
		return 3
	}
	seconds, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return seconds
}

// Backends are replaced again and again. No request fails, be it a connection's only one
// or the next of many.
func TestBackendsRestartUnderLoad(t *testing.T) {
	for name, header := range map[string]string{"one request each": "Connection: close", "kept alive": "X: y"} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			a := s.backend("a")
			port := s.serve(plain)
			s.up("a")
			result := load(t, port, "4", "-H", "Host: a.example", "-H", header)
			for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
				time.Sleep(250 * time.Millisecond) // The load between two restarts is the point.
				a.stop(t, syscall.SIGTERM)
				a = s.backend("a")
			}
			check(t, <-result)
		})
	}
}

// A connection that came back between two requests goes on with the next backend. One on
// which no request follows is closed, as any server closes one that was kept in vain.
func TestRestingConnection(t *testing.T) {
	for name, c := range map[string]struct {
		timeouts string
		goesOn   bool
	}{
		"goes on": {"", true},
		"ends":    {"\n[timeouts]\npeek_ms = 300\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			a := s.backend("a")
			connection := dial(t, s.serve(plain+metricsPart+c.timeouts))
			reader := bufio.NewReader(connection)
			must(t, ask(connection, reader))
			a.stop(t, syscall.SIGTERM)
			s.awaitMetric("nearcall_front_connections_returned_total", 1)
			if c.goesOn {
				s.backend("a")
				if err := ask(connection, reader); err != nil {
					t.Errorf("the next request: %v", err)
				}
				return
			}
			must(t, connection.SetReadDeadline(time.Now().Add(patience)))
			if text, err := io.ReadAll(reader); err != nil || len(text) > 0 {
				t.Errorf("got %q, %v, want the end", text, err)
			}
		})
	}
}

// ask makes one request of a connection that is kept, and reads the answer whole.
func ask(connection net.Conn, reader *bufio.Reader) error {
	if _, err := io.WriteString(connection, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"); err != nil {
		return err
	}
	response, err := http.ReadResponse(reader, nil)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
	}
	return err
}

// A client that keeps its connection does not hold up the end of its backend.
func TestBackendEndsWithIdleClients(t *testing.T) {
	s := newSite(t)
	a := s.backend("a")
	port := s.serve(plain)
	connection := dial(t, port)
	write(t, connection, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
	if n, err := connection.Read(make([]byte, 4096)); err != nil || n == 0 {
		t.Fatal(err)
	}
	began := time.Now()
	a.stop(t, syscall.SIGTERM)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A connection that was handed over by a front comes back to it while it drains.
func TestHandBackDuringTakeover(t *testing.T) {
	s := newSite(t)
	s.backend("a", "-hosts", "a.example")
	s.backend("b", "-hosts", "b.example")
	port := s.serve(plain + strings.Replace(controlPart, "300", "60000", 1))
	connection := dial(t, port)
	write(t, connection, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
	first := make([]byte, 4096)
	n, err := connection.Read(first)
	if err != nil || !strings.Contains(string(first[:n]), "a pid") {
		t.Fatalf("got %q, %v", first[:n], err)
	}
	before := s.front
	s.front = start(t, nil, programs.nearcall, "front", "--takeover", "unix:"+s.path("control.sock"), s.path("front.toml"))
	s.front.says(t, "msg=serving")
	write(t, connection, "GET / HTTP/1.1\r\nHost: b.example\r\nConnection: close\r\n\r\n")
	if text := readAll(t, connection); !strings.Contains(text, "\r\n\r\nb pid") {
		t.Errorf("got %q", text)
	}
	before.stop(t, syscall.SIGTERM)
}

func TestTakeoverOfNobody(t *testing.T) {
	s := newSite(t)
	s.serve(plain+controlPart, "--takeover", "unix:"+s.path("control.sock"))
	s.front.says(t, "there is no front to take over from")
	if text, err := try(t, "", programs.nearcall, "front", s.path("front.toml")); err == nil || !strings.Contains(text, "control.address") {
		t.Errorf("a second front without --takeover: %v, %s", err, text)
	}
}

// load runs wrk in the background; what it says comes through the channel.
func load(t *testing.T, port, seconds string, args ...string) <-chan string {
	result := make(chan string, 1)
	go func() {
		text, err := try(t, "", "wrk", append(args, "-t1", "-c8", "-d"+seconds+"s", "--timeout", "10s", "http://127.0.0.1:"+port)...)
		if err != nil {
			text += err.Error()
		}
		result <- text
	}()
	return result
}

func check(t *testing.T, report string) {
	t.Helper()
	found := regexp.MustCompile(`(\d+) requests in`).FindStringSubmatch(report)
	if found == nil || strings.Contains(report, "Socket errors") || strings.Contains(report, "Non-2xx") {
		t.Fatalf("wrk says\n%s", report)
	}
	if count, _ := strconv.Atoi(found[1]); count < 100 {
		t.Errorf("only %d requests", count)
	}
	t.Logf("%s requests", found[1])
}

// systemd gives the listener; there is no name but that of the socket.
func TestSystemd(t *testing.T) {
	s := newSite(t)
	s.backend("a")
	port := freePort(t)
	config := s.configure(strings.Replace(plain, "127.0.0.1:0", "127.0.0.1:"+port, 1))
	activator := start(t, nil, "systemd-socket-activate", "-l", "127.0.0.1:"+port, programs.nearcall, "front", config)
	activator.says(t, "Listening on")
	for range 3 {
		if out := output(t, "curl", "-sS", "-H", "Host: a.example", "http://127.0.0.1:"+port); !strings.HasPrefix(out, "a pid") {
			t.Errorf("curl printed %q", out)
		}
	}
}

// Server::Starter keeps the listener open while it replaces the front.
func TestServerStarter(t *testing.T) {
	s := newSite(t)
	s.backend("a")
	port := freePort(t)
	config := s.configure(strings.Replace(plain, "127.0.0.1:0", "127.0.0.1:"+port, 1) + metricsPart)
	starter := start(t, nil, "start_server", "--port=127.0.0.1:"+port, "--interval=1", "--", programs.nearcall, "front", strings.TrimSuffix(config, ".toml")+".toml")
	starter.says(t, "msg=serving")
	before := children(t, starter.pid())
	result := load(t, port, "4", "-H", "Host: a.example", "-H", "Connection: close")
	must(t, starter.command.Process.Signal(syscall.SIGHUP))
	await(t, "another front runs alone", func() bool {
		after := children(t, starter.pid())
		return len(after) == 1 && after[0] != before[0]
	})
	check(t, <-result)
	starter.stop(t, syscall.SIGTERM)
}

func children(t *testing.T, pid int) []string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	must(t, err)
	return strings.Fields(string(text))
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must(t, err)
	return port
}
