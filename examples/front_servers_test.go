package examples_test

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

	"github.com/nearcall/nearcall/handoff"
)

// A serverSite is a server in two processes, or with two workers, behind a front.
type serverSite struct {
	front     *process
	port, url string
	arguments func(number int) []string
	processes []*process
	// appeared is how many times a process has begun to take connections.
	appeared int
}

const serverFront = `
[[listen]]
address = "tcp:127.0.0.1:PORT"
defer_accept = true
[[route]]
host = "*"
backend = "site"
[backend.site]
sockets = ["unix:FOLDER/worker-1.sock", "unix:FOLDER/worker-2.sock"]
`

const serverWorkers = 2

// serverFolder is where its sockets are: t.TempDir() may be too long for one.
func serverFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "nearcall-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

func openServerSite(t *testing.T, folder, front string, arguments func(number int) []string, processes int) *serverSite {
	t.Helper()
	port := freePort(t)
	configuration := filepath.Join(folder, "front.toml")
	if err := os.WriteFile(configuration, []byte(strings.NewReplacer("PORT", port, "FOLDER", folder).Replace(front)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &serverSite{port: port, url: "http://127.0.0.1:" + port + "/", arguments: arguments}
	s.front = start(t, nil, built(t, "bin/nearcall"), "front", configuration)
	for number := range processes {
		s.processes = append(s.processes, s.start(t, number+1))
	}
	s.await(t, serverWorkers)
	return s
}

func (s *serverSite) start(t *testing.T, number int) *process {
	arguments := s.arguments(number)
	return start(t, []string{"PYTHONPATH=" + filepath.Join(root(t), "examples/front-python")}, arguments[0], arguments[1:]...)
}

// await waits until so many processes more take connections.
func (s *serverSite) await(t *testing.T, more int) {
	t.Helper()
	s.appeared += more
	await(t, fmt.Sprint(s.appeared, " processes have taken connections"), func() bool {
		return strings.Count(s.front.log(t), `"a process takes connections"`) >= s.appeared
	})
}

// replace ends one process, or all workers of the only one, and waits for those that follow.
func (s *serverSite) replace(t *testing.T, turn int) {
	t.Helper()
	if len(s.processes) == 1 {
		if err := syscall.Kill(s.processes[0].pid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		s.await(t, serverWorkers)
		return
	}
	number := turn % len(s.processes)
	s.processes[number].stop(t)
	s.processes[number] = s.start(t, number+1)
	s.await(t, 1)
}

// load asks again and again on connections that are kept, and returns how many requests were
// answered; it fails the test where one was not.
func (s *serverSite) load(t *testing.T, for_ time.Duration) (requests int) {
	t.Helper()
	text := output(t, nil, "wrk", "-t1", "-c8", "-H", "Host: python.example", fmt.Sprintf("-d%ds", int(for_.Seconds())), s.url)
	found := regexp.MustCompile(`(\d+) requests in`).FindStringSubmatch(text)
	if strings.Contains(text, "Socket errors") || strings.Contains(text, "Non-2xx") || found == nil {
		t.Errorf("wrk says\n%s", text)
		return 0
	}
	requests, _ = strconv.Atoi(found[1])
	return requests
}

// guideProgram builds a program of docs/guides/c.md.
func guideProgram(t *testing.T, name string) string {
	t.Helper()
	page := content(t, filepath.Join(root(t), "docs/guides/c.md"))
	_, text, found := strings.Cut(page, "```c\n/* "+name+".c */\n")
	text, _, ended := strings.Cut(text, "\n```\n")
	if !found || !ended {
		t.Fatalf("the guide has no program %s.c", name)
	}
	program := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(program+".c", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	output(t, nil, "gcc", "-O2", "-I", filepath.Join(root(t), "libnearcall/include"), "-o", program, program+".c", built(t, "lib/libnearcall.a"))
	return program
}

// Servers behind a front are replaced, one after the other, under load of clients that keep
// their connections. None loses a request.
func TestFrontWithServers(t *testing.T) {
	python := built(t, "examples/venv/bin/python")
	program := func(name, folder string) func(int) []string {
		return func(number int) []string {
			return []string{python, filepath.Join(root(t), "examples/front-python", name), fmt.Sprintf("unix:%s/worker-%d.sock", folder, number)}
		}
	}
	workers := func(class string) func(folder string) func(int) []string {
		return func(folder string) func(int) []string {
			return func(int) []string {
				return []string{built(t, "examples/venv/bin/gunicorn"), "-k", "nearcall.gunicorn." + class, "--threads", "4", "-w", fmt.Sprint(serverWorkers),
					"-b", "unix:" + folder + "/worker-%n.sock", "--keep-alive", "60", "with_gunicorn:app"}
			}
		}
	}
	for _, server := range []struct {
		name      string
		arguments func(folder string) func(int) []string
		processes int
	}{
		{"Go", func(folder string) func(int) []string {
			return func(number int) []string {
				return []string{built(t, "examples/pages"), fmt.Sprintf("unix:%s/worker-%d.sock", folder, number), "python.example"}
			}
		}, serverWorkers},
		{"C with epoll", func(folder string) func(int) []string {
			site := guideProgram(t, "site")
			return func(number int) []string {
				return []string{site, fmt.Sprintf("unix:%s/worker-%d.sock", folder, number), "Python.Example."}
			}
		}, serverWorkers},
		{"uvicorn", func(folder string) func(int) []string { return program("with_uvicorn.py", folder) }, serverWorkers},
		{"hypercorn", func(folder string) func(int) []string { return program("with_hypercorn.py", folder) }, serverWorkers},
		{"aiohttp", func(folder string) func(int) []string { return program("with_aiohttp.py", folder) }, serverWorkers},
		{"gunicorn threads", workers("ThreadWorker"), 1},
		{"gunicorn", workers("Worker"), 1},
	} {
		t.Run(server.name, func(t *testing.T) {
			folder := serverFolder(t)
			replaceServers(t, openServerSite(t, folder, serverFront, server.arguments(folder), server.processes))
		})
	}
}

func replaceServers(t *testing.T, s *serverSite) {
	answer := output(t, nil, "curl", "-sS", "-H", "Host: python.example:80", s.url+"where")
	if !regexp.MustCompile(`^(hello|process \d+: /where for 127\.0\.0\.1|Go, process \d+: HTTP/1.1 /where for 127\.0\.0\.1:\d+)\n$`).MatchString(answer) {
		t.Fatalf("curl printed %q", answer)
	}
	wanted, _ := strconv.Atoi(os.Getenv("NEARCALL_SHUTDOWN_REQUESTS"))
	const round = 3 * time.Second
	requests, replaced := 0, 0
	for first := true; first || requests < wanted && !t.Failed(); first = false {
		counted := make(chan int, 1)
		go func() { counted <- s.load(t, round) }()
		for over := false; !over; {
			select {
			case n := <-counted:
				requests, over = requests+n, true
			default:
				s.replace(t, replaced)
				replaced++
			}
		}
	}
	t.Logf("%d requests, replaced %d times", requests, replaced)
}

// The C program of the guide answers a request that another process has read: it is in the
// prefix, whole or in part, and nothing or the rest follows.
func TestGuideServesAPrefix(t *testing.T) {
	const request = "GET / HTTP/1.1\r\nHost: c.example\r\n\r\n"
	folder, err := os.MkdirTemp("", "nearcall-") // t.TempDir() may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	address := "unix:" + folder + "/site.sock"
	start(t, nil, guideProgram(t, "site"), address, "c.example")
	peer := dialSite(t, address)
	for name, prefix := range map[string]string{"none": "", "a part": request[:20], "all": request} {
		t.Run(name, func(t *testing.T) {
			client, served := connected(t)
			if _, err := io.WriteString(client, request[len(prefix):]); err != nil {
				t.Fatal(err)
			}
			if err := peer.SendConn(t.Context(), served, handoff.Meta{Prefix: []byte(prefix)}); err != nil {
				t.Fatal(err)
			}
			if err := client.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(bufio.NewReader(client), nil)
			if err != nil {
				t.Fatalf("it is not answered: %v", err)
			}
			if text, err := io.ReadAll(response.Body); err != nil || string(text) != "hello\n" {
				t.Errorf("got %q, %v", text, err)
			}
		})
	}
}

func dialSite(t *testing.T, address string) *handoff.Peer {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		peer, err := handoff.Dial(t.Context(), address)
		if err == nil {
			t.Cleanup(func() { peer.Close() })
			return peer
		}
		if time.Now().After(end) {
			t.Fatalf("the site does not listen: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func connected(t *testing.T) (client, served net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if served, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { served.Close() })
	return client, served
}
