package command_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nearcall/nearcall/tests/programs/certificates/authority"
)

// startDemo runs `nearcall demo` and returns the address it prints.
func startDemo(t *testing.T, environment []string, args ...string) (address string, demo *exec.Cmd) {
	t.Helper()
	demo = exec.Command(binary, append([]string{"demo"}, args...)...)
	demo.Env = append(os.Environ(), environment...)
	demo.Stderr = os.Stderr
	out, err := demo.StdoutPipe()
	must(t, err)
	must(t, demo.Start())
	t.Cleanup(func() { _ = demo.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	address, found := strings.CutPrefix(line, "Serving on ")
	address, _, _ = strings.Cut(address, ". ")
	if !found {
		t.Fatalf("it prints %q", line)
	}
	return address, demo
}

func TestDemo(t *testing.T) {
	directory, err := os.MkdirTemp("", "nc")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(directory) })
	for name, row := range map[string]struct {
		environment []string
		args        []string
		prefix      string
	}{
		"an address":         {nil, []string{"--address", "unix:" + directory + "/a"}, "unix:" + directory + "/a"},
		"the user's place":   {[]string{"XDG_RUNTIME_DIR=" + directory}, nil, "unix:" + directory + "/nearcall-demo.sock"},
		"a place of its own": {[]string{"XDG_RUNTIME_DIR="}, nil, "unix:/tmp/nearcall-demo-"},
		"with parameters":    {nil, []string{"--address", "unix:" + directory + "/p?shm=off&spin=off"}, "unix:" + directory + "/p"},
		"TCP":                {nil, []string{"--address", "tcp:127.0.0.1:0"}, "tcp:127.0.0.1:"},
	} {
		t.Run(name, func(t *testing.T) {
			address, demo := startDemo(t, row.environment, row.args...)
			if !strings.HasPrefix(address, row.prefix) || strings.HasSuffix(address, ":0") || strings.Contains(address, "?") {
				t.Fatalf("it serves on %s", address)
			}
			nearcall(t, "call", address, "ack", "3", "4").expectOut(t, "125\n")
			must(t, demo.Process.Signal(syscall.SIGINT))
			must(t, demo.Wait())
			path := strings.TrimPrefix(address, "unix:")
			if _, err := os.Stat(path); err == nil {
				t.Fatal("the socket is still there")
			}
			if strings.HasPrefix(path, "/tmp/nearcall-demo-") {
				if _, err := os.Stat(filepath.Dir(path)); err == nil {
					t.Fatal("its directory is still there")
				}
			}
		})
	}
}

func TestDemoOnATakenAddress(t *testing.T) {
	r := nearcall(t, "demo", "--address", serveDemo(t)).expect(t, 1, "already running")
	if strings.Count(r.err, "nearcall:") != 1 {
		t.Errorf("it says who it is more than once: %s", r.err)
	}
}

// What it invites to can be copied, whether the command is on the path or not.
func TestDemoInvites(t *testing.T) {
	directory, err := os.MkdirTemp("", "nc")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(directory) })
	const elsewhere = "PATH=/usr/bin:/bin"
	for path, name := range map[string]string{elsewhere: binary, "PATH=" + filepath.Dir(binary) + ":/usr/bin:/bin": "nearcall"} {
		demo := exec.Command(binary, "demo", "--address", "unix:"+directory+"/s")
		demo.Env = append(os.Environ(), path)
		out, err := demo.StdoutPipe()
		must(t, err)
		must(t, demo.Start())
		t.Cleanup(func() { _ = demo.Process.Kill() })
		lines := bufio.NewScanner(out)
		for lines.Scan() && !strings.Contains(lines.Text(), " call ") {
		}
		if !strings.HasPrefix(lines.Text(), "    "+name+" call ") {
			t.Errorf("with %s it invites to %q", path, lines.Text())
		}
		shell := exec.Command("sh", "-c", lines.Text())
		shell.Dir, shell.Env = "/", []string{path}
		if answer, err := shell.CombinedOutput(); string(answer) != "125\n" {
			t.Errorf("%q answers %q, %v", lines.Text(), answer, err)
		}
		must(t, demo.Process.Signal(syscall.SIGINT))
		must(t, demo.Wait())
	}
}

// So can what it invites to at a tls: address, by a caller that has the files which it names.
func TestDemoInvitesOverTLS(t *testing.T) {
	folder, err := os.MkdirTemp("", "nc")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	must(t, authority.Write(folder))
	for _, kind := range []string{".pem", ".key"} {
		must(t, os.Rename(filepath.Join(folder, "client"+kind), filepath.Join(folder, "worker"+kind)))
	}
	for _, row := range []struct {
		address string
		more    []string
	}{
		{"tls:127.0.0.1:0", nil},
		{"tls:0.0.0.0:0", nil},
		{"tls:0.0.0.0:0", []string{"--ca", "ca.pem"}},
	} {
		t.Run(strings.Join(append([]string{row.address}, row.more...), " "), func(t *testing.T) {
			demo := exec.Command(binary, append([]string{"demo", "--address", row.address, "--cert", "server.pem", "--key", "server.key"}, row.more...)...)
			demo.Dir = folder
			out, err := demo.StdoutPipe()
			must(t, err)
			must(t, demo.Start())
			t.Cleanup(func() { _ = demo.Process.Kill() })
			lines := bufio.NewScanner(out)
			for lines.Scan() && !strings.Contains(lines.Text(), " call ") {
			}
			shell := exec.Command("sh", "-c", lines.Text())
			shell.Dir = folder
			if answer, err := shell.CombinedOutput(); string(answer) != "125\n" {
				t.Errorf("%q answers %q, %v", lines.Text(), answer, err)
			}
			must(t, demo.Process.Signal(syscall.SIGINT))
			must(t, demo.Wait())
		})
	}
}
