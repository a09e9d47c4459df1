package command_test

import (
	"bytes"
	endian "encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	identity      = "0123456789abcdef"
	statusRequest = 2
	stopRequest   = 3
)

// residentDirectory is one of the test's own, where the command looks too.
func residentDirectory(t *testing.T) string {
	t.Helper()
	runtime, err := os.MkdirTemp("", "nc")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(runtime) })
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	directory := filepath.Join(runtime, "nearcall-resident")
	must(t, os.Mkdir(directory, 0o700))
	return directory
}

// A peer answers status and stop as spec/resident.md says, and counts them.
type peer struct {
	asked chan uint16

	mu     sync.Mutex
	report map[string]any
}

func (p *peer) set(report map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report = report
}

func startPeer(t *testing.T, directory, file string) *peer {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(directory, file+".sock"))
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	p := &peer{asked: make(chan uint16, 8), report: map[string]any{"program": "/opt/" + file, "pid": 4711, "mode": "pool",
		"started_ms": 1000, "idle_ms": 600000, "runs": 12, "running": 1, "waiting": 2, "leaving": false, "more": "of it"}}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.answer(conn)
		}
	}()
	return p
}

func (p *peer) answer(conn net.Conn) {
	defer conn.Close()
	request := make([]byte, 48)
	if _, err := io.ReadFull(conn, request); err != nil || string(request[:8]) != "\x8BNCR\r\n\x1a\n" ||
		endian.LittleEndian.Uint32(request[8:]) != 48 || endian.LittleEndian.Uint16(request[12:]) != 1 {
		return
	}
	kind := endian.LittleEndian.Uint16(request[14:])
	p.asked <- kind
	p.mu.Lock()
	report := maps.Clone(p.report)
	p.mu.Unlock()
	report["leaving"] = kind == stopRequest
	text, _ := json.Marshal(report)
	frame := make([]byte, 16)
	endian.LittleEndian.PutUint32(frame, 7)
	endian.LittleEndian.PutUint32(frame[12:], uint32(len(text)))
	_, _ = conn.Write(append(frame, text...))
}

func TestResidentList(t *testing.T) {
	directory := residentDirectory(t)
	nearcall(t, "resident", "list").expectOut(t, "NAME  STATE  PID  MODE  RUNS  RUNNING  PROGRAM\n")
	nearcall(t, "resident", "list", "--json").expectOut(t, "[]\n")
	startPeer(t, directory, "page-"+identity)
	startPeer(t, directory, "other-program-"+identity)
	must(t, os.WriteFile(filepath.Join(directory, "stranger.sock"), nil, 0o600))
	nearcall(t, "resident", "list").expect(t, 0, "other-program  running  4711  pool  12    1        /opt/other-program-"+identity+"\n",
		"page           running  4711  pool  12    1        /opt/page-")
	out := nearcall(t, "resident", "list", "--json", "page").expect(t, 0).out
	var listed []struct {
		Name, Identity, State, Socket string
		Report                        map[string]any
	}
	must(t, json.Unmarshal([]byte(out), &listed))
	if len(listed) != 1 || listed[0].Name != "page" || listed[0].Identity != identity || listed[0].State != "running" || listed[0].Report["more"] != "of it" {
		t.Errorf("got %s", out)
	}
}

func TestResidentStatus(t *testing.T) {
	directory := residentDirectory(t)
	nearcall(t, "resident", "status").expect(t, 1, "nothing is resident: start a program by nearcall-run")
	nearcall(t, "resident", "status", "page").expect(t, 1, "page: no resident runs")
	p := startPeer(t, directory, "page-"+identity)
	nearcall(t, "resident", "status", "page").expect(t, 0, "page", "running", "/opt/page-", "4711", "pool",
		"1970-01-01", "idle for 10m0s", "12 ended, 1 running", "2 processes", directory+"/page-"+identity+".log")
	if asked := <-p.asked; asked != statusRequest {
		t.Errorf("asked %d", asked)
	}
}

// A program is found by its path when its file is what it was.
func TestResidentByPath(t *testing.T) {
	directory := residentDirectory(t)
	program := filepath.Join(t.TempDir(), "a program")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700))
	startPeer(t, directory, "a_program-"+identity)
	nearcall(t, "resident", "status", "a program").expect(t, 0, "a_program")
	nearcall(t, "resident", "status", program).expect(t, 1, program+": no resident runs")
	nearcall(t, "resident", "status", "/no/such/program").expect(t, 1, "stat /no/such/program: no such file or directory")
}

func TestResidentStop(t *testing.T) {
	directory := residentDirectory(t)
	nearcall(t, "resident", "stop").expectOut(t, "")
	nearcall(t, "resident", "stop", "page").expect(t, 1, "page: no resident runs")
	p := startPeer(t, directory, "page-"+identity)
	other := startPeer(t, directory, "other-"+identity)
	nearcall(t, "resident", "stop", "page").expectOut(t, "page: process 4711 leaves when 1 run has ended\n")
	if asked := <-p.asked; asked != stopRequest {
		t.Errorf("asked %d", asked)
	}
	if len(other.asked) != 0 {
		t.Error("another program was asked too")
	}
	p.set(map[string]any{"pid": 4711, "running": 0})
	nearcall(t, "resident", "stop", "page").expectOut(t, "page: process 4711 leaves\n")
	nearcall(t, "resident", "stop", "--json").expect(t, 0, `"leaving": true`, `"name": "other"`, `"name": "page"`)
}

func TestResidentLog(t *testing.T) {
	directory := residentDirectory(t)
	nearcall(t, "resident", "log").expectOut(t, "")
	nearcall(t, "resident", "log", "page").expect(t, 1, "page has no log")
	path := filepath.Join(directory, "page-"+identity+".log")
	must(t, os.WriteFile(path, []byte("one\ntwo\n"), 0o600))
	nearcall(t, "resident", "log", "page").expectOut(t, "==> "+path+" <==\none\ntwo\n")
	nearcall(t, "resident", "log", "--json").expect(t, 0, `"text": "one\ntwo\n"`, `"path": "`+path+`"`)
}

// Starts that come to nothing are told though nobody listens.
func TestResidentFailing(t *testing.T) {
	directory := residentDirectory(t)
	lock := filepath.Join(directory, "page-"+identity+".lock")
	must(t, os.WriteFile(lock, nil, 0o600))
	nearcall(t, "resident", "status", "page").expect(t, 1, "no resident runs")
	must(t, os.WriteFile(lock, []byte("2"), 0o600))
	started := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	must(t, os.Chtimes(lock, started, started))
	nearcall(t, "resident", "list").expect(t, 0, "page  failing  -")
	status := nearcall(t, "resident", "status", "page").expect(t, 0, "failing", "2026-01-02 04:04:05").out
	if fields := strings.Fields(status); !strings.Contains(strings.Join(fields, " "), "failed starts 2") {
		t.Errorf("got %s", status)
	}
	nearcall(t, "resident", "status", "page").expect(t, 0, "mend it, then 'nearcall resident stop page'")
	nearcall(t, "resident", "stop").expectOut(t, "")
	nearcall(t, "resident", "stop", "page").expectOut(t, "page: its failed starts are forgotten: 2\n")
	nearcall(t, "resident", "stop", "page").expect(t, 1, "page: no resident runs")
}

// Two programs of one name are told apart by their paths.
func TestResidentFailingOfOneName(t *testing.T) {
	directory := residentDirectory(t)
	for i, path := range []string{"/opt/one/page", "/opt/\x1b\ttwo/page"} {
		lock := filepath.Join(directory, fmt.Sprintf("page-%016x.lock", i))
		must(t, os.WriteFile(lock, []byte("2\n"+path+"\nmore"), 0o600))
	}
	nearcall(t, "resident", "list").expect(t, 0, "page  failing  -    -     -     -        /opt/one/page\n", "/opt/??two/page\n")
	nearcall(t, "resident", "status", "page").expect(t, 0, "/opt/one/page\n", "/opt/??two/page\n")
	nearcall(t, "resident", "list", "--json").expect(t, 0, `"program": "/opt/one/page"`)
	nearcall(t, "resident", "stop", "page").expectOut(t, "/opt/one/page: its failed starts are forgotten: 2\n"+
		"/opt/??two/page: its failed starts are forgotten: 2\n")
}

// Of a session and of services: each may have another directory, and none is made.
func TestResidentDirectories(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", fmt.Sprintf("/run/user/%d", os.Geteuid()))
	directory := fmt.Sprintf("/tmp/nearcall-resident-%d", os.Geteuid())
	must(t, os.MkdirAll(directory, 0o700))
	lock := filepath.Join(directory, "command-directories-"+identity+".lock")
	must(t, os.WriteFile(lock, []byte("2"), 0o600))
	defer os.Remove(lock)
	listed := nearcall(t, "resident", "list", "command-directories").expect(t, 0, "failing", "DIRECTORY").out
	if !strings.HasSuffix(listed, " "+directory+"\n") {
		t.Errorf("got %s", listed)
	}
	private := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", private)
	nearcall(t, "resident", "list", "command-directories").expectOut(t, "NAME  STATE  PID  MODE  RUNS  RUNNING  PROGRAM\n")
	if _, err := os.Lstat(filepath.Join(private, "nearcall-resident")); err == nil {
		t.Error("it has made a directory")
	}
}

// One that does not answer, or not as it should, keeps no other from being seen.
func TestResidentThatIsSilent(t *testing.T) {
	directory := residentDirectory(t)
	startPeer(t, directory, "page-"+identity)
	listener, err := net.Listen("unix", filepath.Join(directory, "hung-"+identity+".sock"))
	must(t, err)
	defer listener.Close()
	odd := startPeer(t, directory, "odd-"+identity)
	odd.set(map[string]any{"pid": "none"})
	nearcall(t, "resident", "--timeout", "500ms", "list").expect(t, 0, "hung  silent", "page  running", "odd   silent")
	nearcall(t, "resident", "--timeout", "500ms", "status").expect(t, 0, "hung: the resident does not answer", "odd: the resident's report cannot be read")
	nearcall(t, "resident", "--timeout", "500ms", "stop").expect(t, 1, "page: process 4711 leaves", "hung: the resident does not answer", "odd: ")
}

// A directory that somebody else can write to is not looked into.
func TestResidentDirectoryOfOthers(t *testing.T) {
	directory := residentDirectory(t)
	must(t, os.Chmod(directory, 0o755))
	nearcall(t, "resident", "list").expect(t, 1, directory+" has owner", "mode 0755; it must be a directory of user", "with mode 0700")
	must(t, os.Remove(directory))
	must(t, os.WriteFile(directory, nil, 0o600))
	nearcall(t, "resident", "list").expect(t, 1, directory+" has owner", "it must be a directory")
	must(t, os.Remove(directory))
	must(t, os.Mkdir(directory, 0o700))
	if os.Geteuid() == 0 {
		must(t, os.Chown(directory, 33, 33))
		nearcall(t, "resident", "list").expect(t, 1, directory+" has owner 33")
	}
}

// Without a directory of the session the residents are in /tmp.
func TestResidentDirectoryInTmp(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "relative")
	directory := fmt.Sprintf("/tmp/nearcall-resident-%d", os.Geteuid())
	must(t, os.MkdirAll(directory, 0o700))
	path := filepath.Join(directory, "command-test-"+identity+".log")
	must(t, os.WriteFile(path, []byte("here\n"), 0o600))
	defer os.Remove(path)
	nearcall(t, "resident", "log", "command-test").expectOut(t, "==> "+path+" <==\nhere\n")
}

func TestResidentCompletion(t *testing.T) {
	directory := residentDirectory(t)
	startPeer(t, directory, "page-"+identity)
	nearcall(t, "__complete", "resident", "stop", "").expect(t, 0, "page\t"+identity)
	nearcall(t, "__complete", "resident", "").expect(t, 0, "list\t", "status\t", "stop\t", "log\t")
	nearcall(t, "resident", "list", "a", "b").expect(t, 2, "2 arguments where 'nearcall resident list [PROGRAM]")
}

// Nothing is sent to a process of another user.
func TestResidentOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test acts as two users: run it as root, for instance in a container")
	}
	directory := residentDirectory(t)
	open, err := os.MkdirTemp("", "nc")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(open) })
	must(t, os.Chmod(open, 0o777))
	stranger := exec.Command("socat", "-u", "UNIX-LISTEN:"+open+"/s", "STDOUT")
	stranger.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 33, Gid: 33}}
	var got bytes.Buffer
	stranger.Stdout = &got
	must(t, stranger.Start())
	var status run
	for deadline := time.Now().Add(10 * time.Second); status.out == "" && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		// It may be bound and not listen yet.
		_ = os.Rename(open+"/s", filepath.Join(directory, "page-"+identity+".sock"))
		status = nearcall(t, "resident", "status")
	}
	status.expect(t, 0, "silent", "page: user 33 listens there")
	must(t, stranger.Wait())
	if got.Len() > 0 {
		t.Errorf("it was sent %q", got.Bytes())
	}
}
