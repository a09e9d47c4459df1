package examples_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A site is examples/front as its run sets it up.
type site struct {
	run          *process
	folder, port string
}

func startSite(t *testing.T) *site {
	t.Helper()
	s := &site{port: freePort(t)}
	s.run = start(t, nil, "front/run", s.port)
	await(t, "the front serves and has all its backends", func() bool {
		log := s.run.log(t)
		if found := regexp.MustCompile(`--cacert (\S+)/pages.example.pem`).FindStringSubmatch(log); found != nil {
			s.folder = found[1]
		}
		return s.folder != "" && strings.Contains(log, "msg=serving") && strings.Count(log, `"a process takes connections"`) >= 5
	})
	return s
}

// Whoever starts it on a port that is taken is told so, and has nothing to clear up.
func TestFrontOnATakenPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	run := start(t, nil, "front/run", port)
	select {
	case <-run.ended:
	case <-time.After(readyTimeout):
		t.Fatal("it goes on without a front")
	}
	if log := run.log(t); run.command.ProcessState.ExitCode() != 1 || !strings.Contains(log, "cannot listen on tcp:127.0.0.1:"+port) {
		t.Errorf("exit code %d after\n%s", run.command.ProcessState.ExitCode(), log)
	}
}

// curl asks for pages of a host on one connection, and checks its certificate.
func (s *site) curl(t *testing.T, host string, pages ...string) string {
	t.Helper()
	args := []string{"-sS", "--cacert", filepath.Join(s.folder, host+".pem"), "--resolve", host + ":" + s.port + ":127.0.0.1"}
	for _, page := range pages {
		args = append(args, "https://"+host+":"+s.port+page)
	}
	return output(t, nil, "curl", args...)
}

func TestFront(t *testing.T) {
	s := startSite(t)
	seen := map[string]bool{}
	for host, language := range map[string]string{"pages.example": "Go", "shop.example": "Perl"} {
		for range 4 {
			out := s.curl(t, host, "/one", "/two")
			answers := regexp.MustCompile(`(?m)^`+language+`, process (\d+):.* (/one|/two) for (127.0.0.1:\d+)$`).FindAllStringSubmatch(out, -1)
			if len(answers) != 2 || answers[0][3] != answers[1][3] {
				t.Fatalf("%s answered %q, want two answers on one connection", host, out)
			}
			seen[answers[0][1]] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("processes %v answered, want two of each application", seen)
	}
	if out := s.curl(t, "pages.example", "/"); !strings.Contains(out, "HTTP/2.0") {
		t.Errorf("curl got %q, want HTTP/2", out)
	}
	if out := output(t, nil, "curl", "-sS", "-H", "Host: pages.example", "http://127.0.0.1:"+s.port+"/"); !strings.HasPrefix(out, "Go, process") {
		t.Errorf("without TLS curl got %q", out)
	}
	s.checkCertificates(t)
	s.checkPrinted(t)
	s.checkTakeover(t)
	s.run.command.Process.Signal(syscall.SIGTERM)
	<-s.run.ended
	if _, err := os.Stat(s.folder); !os.IsNotExist(err) {
		t.Errorf("it leaves %s", s.folder)
	}
}

// Each application shows its own certificate on the same port.
func (s *site) checkCertificates(t *testing.T) {
	t.Helper()
	for _, host := range []string{"pages.example", "shop.example"} {
		out := output(t, nil, "sh", "-c", fmt.Sprintf("openssl s_client -connect 127.0.0.1:%s -servername %s </dev/null 2>&1", s.port, host))
		if !strings.Contains(out, "subject=CN = "+host) {
			t.Errorf("openssl saw\n%s", out)
		}
	}
}

// printed returns the commands to try that begin so, as they are printed.
func (s *site) printed(t *testing.T, begins string) []string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^    (`+begins+` .*)$`).FindAllStringSubmatch(s.run.log(t), -1)
	if found == nil {
		t.Fatalf("it prints no command that begins with %q", begins)
	}
	var commands []string
	for _, line := range found {
		commands = append(commands, line[1])
	}
	return commands
}

// What is printed works in a terminal that knows nothing of this folder.
func (s *site) checkPrinted(t *testing.T) {
	t.Helper()
	for _, command := range s.printed(t, "curl") {
		if out := output(t, nil, "sh", "-c", "cd / && "+command+" -sS"); out == "" {
			t.Errorf("%s: it prints nothing", command)
		}
	}
}

// Another front takes the port over while nobody waits for it.
func (s *site) checkTakeover(t *testing.T) {
	t.Helper()
	second := start(t, nil, "sh", "-c", "cd / && exec "+s.printed(t, `\S*nearcall`)[0])
	await(t, "the second front serves", func() bool { return strings.Contains(second.log(t), "msg=serving") })
	await(t, "the first front drains", func() bool { return strings.Contains(s.run.log(t), "a successor has the listeners") })
	if out := s.curl(t, "pages.example", "/"); !strings.HasPrefix(out, "Go, process") {
		t.Errorf("behind the second front curl got %q", out)
	}
}
