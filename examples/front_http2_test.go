package examples_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// secureFront gives what begins with TLS to the same two sockets.
const secureFront = serverFront + `
[[route]]
server_name = "*"
backend = "site"
`

// hypercornWithTLS is examples/front-python/with_hypercorn.py with a certificate.
const hypercornWithTLS = `
import asyncio, sys
from hypercorn.config import Config
from nearcall.hypercorn import serve
from with_uvicorn import app
config = Config()
config.certfile = config.keyfile = sys.argv[2]
config.keep_alive_max_requests = 1 << 30  # it breaks connections off that have had more
asyncio.run(serve(app, config, sys.argv[1]))
`

// Servers of HTTP/2 are replaced, one after the other, under load. h2load makes no new
// connection where the server has said that it takes no more requests (GOAWAY), and counts
// what it could not ask any more as failed. Whatever it has asked has an end: an answer, or,
// for what had not left h2load when it was told, or had crossed the server's word on its way,
// that nobody has looked at it.
func TestFrontWithHTTP2(t *testing.T) {
	for _, server := range []struct {
		name      string
		arguments func(socket, certificate string) []string
	}{
		{"Go", func(socket, certificate string) []string {
			return []string{built(t, "examples/pages"), socket, "localhost", certificate}
		}},
		{"hypercorn", func(socket, certificate string) []string {
			return []string{built(t, "examples/venv/bin/python"), "-c", hypercornWithTLS, socket, certificate}
		}},
	} {
		t.Run(server.name, func(t *testing.T) {
			folder := serverFolder(t)
			certificate := certificate(t, folder)
			s := openServerSite(t, folder, secureFront, func(number int) []string {
				return server.arguments(fmt.Sprintf("unix:%s/worker-%d.sock", folder, number), certificate)
			}, serverWorkers)
			replaceUnderHTTP2(t, s)
		})
	}
}

func certificate(t *testing.T, folder string) (path string) {
	t.Helper()
	path = filepath.Join(folder, "site.pem")
	output(t, nil, "sh", "-c", fmt.Sprintf("cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 "+
		"-subj /CN=localhost -keyout key -out certificate 2>/dev/null && cat certificate key >%s", folder, path))
	return path
}

func replaceUnderHTTP2(t *testing.T, s *serverSite) {
	t.Helper()
	wanted, _ := strconv.Atoi(os.Getenv("NEARCALL_SHUTDOWN_REQUESTS"))
	answered, unseen, replaced := 0, 0, 0
	for first := true; first || answered < wanted && !t.Failed(); first = false {
		counted := make(chan [2]int, 1)
		go func() { counted <- s.askByHTTP2(t) }()
		// When all its connections have been told so h2load has nothing more to ask.
		for over := false; !over; {
			select {
			case more := <-counted:
				answered, unseen, over = answered+more[0], unseen+more[1], true
			case <-time.After(300 * time.Millisecond): // The load between two of them is the point.
				s.replace(t, replaced)
				replaced++
			}
		}
	}
	t.Logf("%d requests, replaced %d times; %d more were not looked at", answered, replaced, unseen)
	if answered == 0 {
		t.Error("nothing was answered")
	}
}

// askByHTTP2 asks for more than there is time for, and returns how many requests were answered,
// and how many were not looked at; it fails the test where one is neither.
func (s *serverSite) askByHTTP2(t *testing.T) [2]int {
	t.Helper()
	text := output(t, nil, "h2load", "-n", "10000000", "-c", "8", "-m", "10", "https://localhost:"+s.port+"/")
	found := regexp.MustCompile(`(?s)Application protocol: h2\n.*requests: \d+ total, (\d+) started, (\d+) done, (\d+) succeeded, .* 0 timeout\nstatus codes: (\d+) 2xx, 0 3xx, 0 4xx, 0 5xx\n`).FindStringSubmatch(text)
	if found == nil || found[1] != found[2] || found[3] != found[4] {
		t.Errorf("h2load says\n%s", text)
		return [2]int{}
	}
	done, _ := strconv.Atoi(found[2])
	succeeded, _ := strconv.Atoi(found[3])
	return [2]int{succeeded, done - succeeded}
}
