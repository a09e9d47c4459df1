package examples_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A shop is the real Starlet, once behind a front and once on a port of its own.
type shop struct {
	behind             *process
	frontURL, plainURL string
}

const shopApplication = `
sub {
    my ($env) = @_;
    my ($ms) = $env->{PATH_INFO} =~ /([0-9]+)/;
    select undef, undef, undef, $ms / 1000 if $ms;
    return [ 200, [ 'Content-Type' => 'text/plain', 'Content-Length' => length $$ ], ["$$"] ];
};
`

const shopFront = `
[[listen]]
address = "tcp:127.0.0.1:PORT"
[[route]]
host = "*"
backend = "shop"
[backend.shop]
sockets = [SOCKETS]
wait_ms = 1000
`

func openShop(t *testing.T, workers int, options ...string) *shop {
	t.Helper()
	folder, err := os.MkdirTemp("", "nearcall-") // t.TempDir() may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	port, plain := freePort(t), freePort(t)
	var sockets []string
	for i := range workers {
		sockets = append(sockets, fmt.Sprintf("%q", fmt.Sprintf("unix:%s/worker-%d.sock", folder, i+1)))
	}
	files := map[string]string{
		"app.psgi":   shopApplication,
		"front.toml": strings.NewReplacer("PORT", port, "SOCKETS", strings.Join(sockets, ", ")).Replace(shopFront),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	library := built(t, "perl/blib")
	environment := []string{"PERL5LIB=" + filepath.Join(library, "lib") + ":" + filepath.Join(library, "arch")}
	run := func(server ...string) *process {
		args := append([]string{"-s"}, server...)
		args = append(args, "--max-workers", fmt.Sprint(workers), "--err-respawn-interval", "0", "-E", "deployment")
		return start(t, environment, "plackup", append(append(args, options...), filepath.Join(folder, "app.psgi"))...)
	}
	s := &shop{frontURL: "http://127.0.0.1:" + port + "/", plainURL: "http://127.0.0.1:" + plain + "/"}
	s.behind = run("Nearcall", "--handoff", "unix:"+folder+"/worker-%n.sock")
	run("Starlet", "--host", "127.0.0.1", "--port", plain)
	front := start(t, nil, built(t, "bin/nearcall"), "front", filepath.Join(folder, "front.toml"))
	await(t, "all workers take connections", func() bool {
		return strings.Count(front.log(t), `"a process takes connections"`) >= workers
	})
	await(t, "Starlet answers", func() bool { return get(s.plainURL).status == 200 })
	return s
}

// Workers that are busy for long take no longer behind a front than by TCP, and nobody is
// told that there are none.
func TestFrontWithBusyWorkers(t *testing.T) {
	const workers, requests, each = 2, 8, 500 * time.Millisecond
	s := openShop(t, workers)
	took := func(url string) time.Duration {
		began := time.Now()
		var asked sync.WaitGroup
		for range requests {
			asked.Go(func() {
				if got := get(url + fmt.Sprint(each.Milliseconds())); got.status != 200 {
					t.Errorf("%s: got %d", url, got.status)
				}
			})
		}
		asked.Wait()
		return time.Since(began)
	}
	plain, behind := took(s.plainURL), took(s.frontURL)
	t.Logf("by TCP %v, behind the front %v", plain, behind)
	// Half a request is far more than the front adds, and less than a worker that is idle
	// in vain, or a connection that is bound to the wrong one.
	if behind > plain+each/2 {
		t.Errorf("it took %v, by TCP %v", behind, plain)
	}
}

// A worker that is told to end does not wait for a client that keeps its connection, and
// does not close it either: another answers the next request.
func TestFrontWithIdleClients(t *testing.T) {
	s := openShop(t, 2, "--max-keepalive-reqs", "10", "--keepalive-timeout", "300")
	connection, err := net.Dial("tcp", strings.Trim(s.frontURL, "htp:/"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	reader := bufio.NewReader(connection)
	ask := func() (worker int) {
		t.Helper()
		if _, err := io.WriteString(connection, "GET / HTTP/1.1\r\nHost: shop\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fscan(response.Body, &worker); err != nil {
			t.Fatal(err)
		}
		return worker
	}
	before := ask()
	if err := syscall.Kill(s.behind.pid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await(t, "the worker ends", func() bool { return errors.Is(syscall.Kill(before, 0), syscall.ESRCH) })
	if after := ask(); after == before {
		t.Errorf("process %d answered twice", after)
	}
}

// Workers are replaced under load of clients that keep their connections. None loses a
// request.
func TestFrontWithRestartingWorkers(t *testing.T) {
	const workers = 4
	s := openShop(t, workers, "--max-keepalive-reqs", "1000000", "--max-reqs-per-child", "1000000")
	wanted, _ := strconv.Atoi(os.Getenv("NEARCALL_SHUTDOWN_REQUESTS"))
	requests, reloads := 0, 0
	for first := true; first || requests < wanted && !t.Failed(); first = false {
		more, times := reloadUnderLoad(t, s)
		requests, reloads = requests+more, reloads+times
	}
	t.Logf("%d requests, %d reloads", requests, reloads)
}

func reloadUnderLoad(t *testing.T, s *shop) (requests, reloads int) {
	t.Helper()
	report := make(chan string, 1)
	go func() { report <- output(t, nil, "wrk", "-t1", "-c4", "-d5s", s.frontURL) }()
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); reloads++ {
		time.Sleep(500 * time.Millisecond) // The load between two reloads is the point.
		if err := syscall.Kill(s.behind.pid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	text := <-report
	found := regexp.MustCompile(`(\d+) requests in`).FindStringSubmatch(text)
	if strings.Contains(text, "Socket errors") || strings.Contains(text, "Non-2xx") || found == nil {
		t.Errorf("wrk says\n%s", text)
		return 0, reloads
	}
	requests, _ = strconv.Atoi(found[1])
	return requests, reloads
}
