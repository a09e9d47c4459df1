// Package nats_test uses the command nats of others against a gateway: what it shows of services, and
// what its requests get. `make soak` runs it, because building that command takes more than a minute of
// CPU time.
package nats_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	root  = "../../../.."
	guide = root + "/docs/guides/gateway.md"
	// patience bounds every wait.
	patience = 30 * time.Second
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A stage is a gateway with the demonstration functions, and the two commands.
type stage struct {
	folder, engine string
}

// build builds a command.
func (s *stage) build(t *testing.T, args ...string) {
	t.Helper()
	build := exec.Command("go", append([]string{"build"}, args...)...)
	build.Stderr = os.Stderr
	must(t, build.Run())
}

// start runs the command nearcall until the test ends.
func (s *stage) start(t *testing.T, args ...string) {
	t.Helper()
	process := exec.Command(filepath.Join(s.folder, "nearcall"), args...)
	process.Stderr = os.Stderr
	must(t, process.Start())
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
}

// nats returns what the command nats prints.
func (s *stage) nats(arguments string) (string, error) {
	shell := exec.Command("bash", "-c", "nats "+arguments)
	shell.Env = append(os.Environ(), "PATH="+s.folder+":"+os.Getenv("PATH"), "NATS_URL=nats://"+s.engine, "HOME="+s.folder, "NO_COLOR=1")
	out, err := shell.Output()
	return strings.TrimSpace(string(out)), err
}

// must returns what the command nats prints, and it has to succeed.
func (s *stage) must(t *testing.T, arguments string) string {
	t.Helper()
	out, err := s.nats(arguments)
	if err != nil {
		t.Fatalf("nats %s: %v\n%s", arguments, err, out)
	}
	return out
}

func newStage(t *testing.T) *stage {
	t.Helper()
	folder, err := os.MkdirTemp("", "nc")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &stage{folder: folder, engine: l.Addr().String()}
	must(t, l.Close())
	s.build(t, "-o", filepath.Join(folder, "nats"), "github.com/nats-io/natscli/nats")
	s.build(t, "-C", root+"/cmd/nearcall", "-o", filepath.Join(folder, "nearcall"), ".")
	s.start(t, "demo", "--address", "unix:"+folder+"/demo.sock")
	s.start(t, "gateway", "--host", "b", "--export", "demo=unix:"+folder+"/demo.sock", "--engine-listen", s.engine)
	for until := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		out, err := s.nats("request --raw nearcall.f.demo.one ''")
		if err == nil && out == "1" {
			return s
		}
		if time.Now().After(until) {
			t.Fatalf("not within %v: %v, %q", patience, err, out)
		}
	}
}

// examples returns the examples with the command nats of the guide, and what it shows for each.
func examples(t *testing.T) (all [][2]string) {
	t.Helper()
	text, err := os.ReadFile(guide)
	must(t, err)
	inside := false
	for line := range strings.Lines(string(text)) {
		command, begins := strings.CutPrefix(line, "    $ nats ")
		shown, indented := strings.CutPrefix(line, "    ")
		switch {
		case begins:
			all = append(all, [2]string{strings.TrimSpace(command), ""})
		case inside && indented:
			all[len(all)-1][1] += shown
		}
		inside = begins || inside && indented
	}
	return all
}

func TestCommandNATS(t *testing.T) {
	s := newStage(t)
	t.Run("guide", s.checkGuide)
	t.Run("ls", s.checkList)
	t.Run("info", s.checkInfo)
	t.Run("stats", s.checkStatistics)
}

// What the guide shows is what the command prints.
func (s *stage) checkGuide(t *testing.T) {
	all := examples(t)
	if len(all) < 4 {
		t.Fatalf("the guide has %d examples", len(all))
	}
	for _, example := range all {
		if got := s.must(t, example[0]); got != strings.TrimSpace(example[1]) {
			t.Errorf("nats %s\nprints\n%s\nand in the guide\n%s", example[0], got, example[1])
		}
	}
}

func (s *stage) checkList(t *testing.T) {
	out := s.must(t, "micro ls")
	for _, want := range []string{"demo", "0.0.0", "functions of the Nearcall server demo"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

func (s *stage) checkInfo(t *testing.T) {
	out := s.must(t, "micro info demo")
	for _, want := range []string{"host: b", "Subject: nearcall.f.demo.divmod", "signature: divmod(a int64, b int64) (int64, int64)",
		"description: Divides: returns quotient and remainder.", "Queue Group: q"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

// All requests are counted, with their errors.
func (s *stage) checkStatistics(t *testing.T) {
	for i := range 7 {
		s.must(t, fmt.Sprintf("request --raw nearcall.f.demo.divmod '[%d, 2]'", i))
	}
	s.must(t, "request --raw nearcall.f.demo.divmod '[1, 0]'")
	var all []struct {
		Endpoints []struct {
			Name        string `json:"name"`
			NumRequests int    `json:"num_requests"`
			NumErrors   int    `json:"num_errors"`
			LastError   string `json:"last_error"`
		} `json:"endpoints"`
	}
	out := s.must(t, "micro stats demo --json")
	must(t, json.Unmarshal([]byte(out), &all))
	for _, service := range all {
		for _, e := range service.Endpoints {
			if e.Name == "divmod" && (e.NumRequests != 8 || e.NumErrors != 1 || e.LastError == "") {
				t.Errorf("divmod has %d requests and %d errors, the last %q", e.NumRequests, e.NumErrors, e.LastError)
			}
		}
	}
	if len(all) != 1 || len(all[0].Endpoints) < 20 {
		t.Errorf("nats micro stats prints\n%s", out)
	}
	if text := s.must(t, "micro stats demo"); !strings.Contains(text, "divmod") {
		t.Errorf("divmod is missing in\n%s", text)
	}
}
