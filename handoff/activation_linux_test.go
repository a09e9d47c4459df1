package handoff_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An inherited is what internal/inheritor prints.
type inherited struct {
	Items       []struct{ Name, Kind, Address string }
	Error       string
	Again       int
	Environment []string
	Child       string
}

func buildInheritor(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "inheritor")
	out, err := exec.Command("go", "build", "-o", program, "./internal/inheritor").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// A manager is a service manager that runs the inheritor.
type manager struct {
	*exec.Cmd
	out    *bufio.Reader
	errors strings.Builder
}

// startManager starts it. It passes its end on to the inheritor.
func startManager(t *testing.T, name string, args ...string) *manager {
	t.Helper()
	m := &manager{Cmd: exec.Command(name, args...)}
	m.Stderr = &m.errors
	out, err := m.StdoutPipe()
	must(t, err)
	m.out = bufio.NewReader(out)
	must(t, m.Start())
	t.Cleanup(func() {
		_ = m.Process.Signal(syscall.SIGTERM)
		_ = m.Wait()
		if t.Failed() {
			t.Logf("%s: %s", name, m.errors.String())
		}
	})
	return m
}

// report is what the inheritor prints once the manager has started it.
func (m *manager) report(t *testing.T) (told inherited) {
	t.Helper()
	line, err := m.out.ReadBytes('\n')
	must(t, err)
	must(t, json.Unmarshal(line, &told))
	if told.Error != "" || told.Again != 0 || len(told.Environment) > 0 || told.Child != "" {
		t.Errorf("%+v", told)
	}
	return told
}

// expectAnswer connects; the inheritor answers with the name it knows.
func expectAnswer(t *testing.T, conn net.Conn, name string) {
	t.Helper()
	defer conn.Close()
	must(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	if got, err := io.ReadAll(conn); err != nil || string(got) != "by "+name+"\n" {
		t.Errorf("answered %q, %v; want by %q", got, err, name)
	}
}

// dialUntil waits for a server that is being started.
func dialUntil(t *testing.T, network, address string) net.Conn {
	t.Helper()
	for {
		conn, err := net.Dial(network, address)
		if err == nil {
			return conn
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

// freePort returns a port that was free a moment ago, for a program that can
// choose none itself.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

func TestInheritedFromSystemdSocketActivate(t *testing.T) {
	program := buildInheritor(t)
	path, address := filepath.Join(t.TempDir(), "s"), freePort(t)
	m := startManager(t, "systemd-socket-activate", "--listen="+address, "--listen="+path, "--fdname=web:local", program)
	first, second := dialUntil(t, "tcp", address), dialUntil(t, "unix", path)
	told := m.report(t)
	if len(told.Items) != 2 || told.Items[0].Name != "web" || told.Items[0].Address != address || told.Items[1].Name != "local" || told.Items[1].Address != path {
		t.Fatalf("%+v", told)
	}
	expectAnswer(t, first, "web")
	expectAnswer(t, second, "local")
}

// With --accept it is one connection.
func TestInheritedConnectionFromSystemdSocketActivate(t *testing.T) {
	program, address := buildInheritor(t), freePort(t)
	m := startManager(t, "systemd-socket-activate", "--accept", "--listen="+address, program)
	conn := dialUntil(t, "tcp", address)
	told := m.report(t)
	if len(told.Items) != 1 || told.Items[0].Kind != "*net.TCPConn" || told.Items[0].Address != address {
		t.Fatalf("%+v", told)
	}
	expectAnswer(t, conn, "")
}

func TestInheritedDatagramsFromSystemdSocketActivate(t *testing.T) {
	program, address := buildInheritor(t), freePort(t)
	m := startManager(t, "systemd-socket-activate", "--datagram", "--listen="+address, program)
	conn, err := net.Dial("udp", address)
	must(t, err)
	defer conn.Close()
	reported := make(chan struct{})
	go func() { // until it listens, what is sent is lost
		for {
			select {
			case <-reported:
				return
			default:
				_, _ = conn.Write([]byte("x"))
			}
		}
	}()
	told := m.report(t)
	close(reported)
	if len(told.Items) != 1 || told.Items[0].Kind != "*net.UDPConn" || told.Items[0].Address != address {
		t.Fatalf("%+v", told)
	}
}

// Every form in which Server::Starter writes a port.
func TestInheritedFromServerStarter(t *testing.T) {
	program := buildInheritor(t)
	directory := filepath.Join(t.TempDir(), "a=b")
	must(t, os.Mkdir(directory, 0o700))
	path := filepath.Join(directory, "s")
	m := startManager(t, "start_server", "--port=0", "--port=127.0.0.1:0", "--port=[::1]:0", "--port=127.0.0.1:u0", "--port=127.0.0.2:0=20", "--path="+path, "--", program)
	told := m.report(t)
	want := []struct{ name, kind, host string }{
		{"0", "listener", "0.0.0.0"}, {"127.0.0.1:0", "listener", "127.0.0.1"}, {"[::1]:0", "listener", "::1"},
		{"127.0.0.1:0", "*net.UDPConn", "127.0.0.1"}, {"127.0.0.2:0", "listener", "127.0.0.2"}, {path, "listener", path},
	}
	if len(told.Items) != len(want) {
		t.Fatalf("%+v", told)
	}
	for i, item := range told.Items {
		host, _, err := net.SplitHostPort(item.Address)
		if err != nil {
			host = item.Address
		}
		if item.Name != want[i].name || item.Kind != want[i].kind || host != want[i].host {
			t.Errorf("got %+v, want %+v", item, want[i])
		}
		if item.Kind != "listener" {
			continue
		}
		network := "tcp"
		if item.Address == path {
			network = "unix"
		}
		conn, err := net.Dial(network, item.Address)
		must(t, err)
		expectAnswer(t, conn, item.Name)
	}
}

// What no service manager writes is refused, and closes what could be opened.
func TestInheritedRefuses(t *testing.T) {
	program := buildInheritor(t)
	for _, row := range []struct {
		environment string
		items       int
		says        string
	}{
		{"LISTEN_FDS=1 LISTEN_PID=1", 0, ""}, // another process's
		{"LISTEN_FDS=1", 0, ""},
		{"LISTEN_PID=$$", 0, ""},
		{"LISTEN_PID=$$ LISTEN_FDS=0", 0, ""},
		{"LISTEN_PID=$$ LISTEN_PIDFDID=1 LISTEN_FDS=1", 1, ""},
		{"LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=a:b:c", 1, ""},
		{"LISTEN_PID=$$ LISTEN_FDS=one", 0, "not a number"},
		{"LISTEN_PID=$$ LISTEN_FDS=-1", 0, "not a number"},
		{"LISTEN_PID=$$ LISTEN_FDS=99999999999", 0, "not a number"},
		{"LISTEN_PID=$$ LISTEN_FDS=500", 0, "bad file descriptor"},
		{"SERVER_STARTER_PORT=8080", 0, "form name=descriptor"},
		{"SERVER_STARTER_PORT=8080=x", 0, "descriptor's number"},
		{"SERVER_STARTER_PORT=8080=77", 0, "descriptor 77 (8080)"},
		{"SERVER_STARTER_PORT='8080=3;8081=3'", 0, "descriptor 3 is named twice"},
	} {
		out, err := exec.Command("sh", "-c", fmt.Sprintf("exec 3</dev/null; %s exec %s </dev/null", row.environment, program)).Output()
		must(t, err)
		var told inherited
		must(t, json.Unmarshal(out, &told))
		if len(told.Items) != row.items || !strings.Contains(told.Error, row.says) || (told.Error != "") != (row.says != "") || len(told.Environment) > 0 {
			t.Errorf("%s: %+v", row.environment, told)
		}
	}
}
