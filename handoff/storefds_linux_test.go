package handoff_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/handoff"
)

// A storing plays systemd's side of NOTIFY_SOCKET: there is no manager where tests
// run.
type storing struct {
	socket *net.UnixConn
	texts  []string
	files  []*os.File
}

// startStoring puts the socket's address into the environment.
func startStoring(t *testing.T, name string) *storing {
	t.Helper()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	must(t, err)
	t.Cleanup(func() { socket.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	return &storing{socket: socket}
}

// receive reads as systemd does, up to and with the barrier, which it lets pass by
// closing what came with it.
func (s *storing) receive() error {
	text, control := make([]byte, 4096), make([]byte, 4096)
	for {
		n, controlBytes, _, _, err := s.socket.ReadMsgUnix(text, control)
		if err != nil {
			return err
		}
		files, err := filesOf(control[:controlBytes])
		if err != nil {
			return err
		}
		if string(text[:n]) == "BARRIER=1" {
			for _, file := range files {
				file.Close()
			}
			return nil
		}
		s.texts, s.files = append(s.texts, string(text[:n])), append(s.files, files...)
	}
}

func filesOf(control []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	for _, message := range messages {
		descriptors, err := unix.ParseUnixRights(&message)
		if err != nil {
			return nil, err
		}
		for _, descriptor := range descriptors {
			unix.CloseOnExec(descriptor)
			files = append(files, os.NewFile(uintptr(descriptor), "stored"))
		}
	}
	return files, nil
}

// What was stored is what the next start of the service inherits, also when this
// one has ended.
func TestStoreFDs(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), "@nearcall-" + filepath.Base(t.TempDir()) + t.Name()} {
		manager := startStoring(t, name)
		path := filepath.Join(t.TempDir(), "s")
		listener, err := net.Listen("unix", path)
		must(t, err)
		state, err := os.CreateTemp(t.TempDir(), "")
		must(t, err)
		received := make(chan error, 1)
		go func() { received <- manager.receive() }()
		must(t, handoff.StoreFDs(handoff.Item{Name: "web", Listener: listener}, handoff.Item{File: state}))
		must(t, <-received)
		must(t, errors.Join(listener.Close(), state.Close()))
		if got := strings.Join(manager.texts, "|"); got != "FDSTORE=1\nFDNAME=web|FDSTORE=1" || len(manager.files) != 2 {
			t.Fatalf("systemd gets %q and %d files", got, len(manager.files))
		}
		expectInherited(t, manager.files, path)
	}
}

// expectInherited starts a program as systemd does, with what it kept.
func expectInherited(t *testing.T, files []*os.File, path string) {
	t.Helper()
	next := exec.Command("sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=web:stored exec "$0"`, buildInheritor(t))
	next.ExtraFiles = files
	next.Stderr = os.Stderr
	out, err := next.StdoutPipe()
	must(t, err)
	must(t, next.Start())
	defer func() { _ = next.Process.Kill(); _ = next.Wait() }()
	var told inherited
	must(t, json.NewDecoder(out).Decode(&told))
	if len(told.Items) != 2 || told.Items[0].Name != "web" || told.Items[0].Address != path || told.Items[1].Kind != "file" || told.Error != "" {
		t.Fatalf("%+v", told)
	}
	conn, err := net.Dial("unix", path)
	must(t, err)
	expectAnswer(t, conn, "web")
}

func TestRemoveFDs(t *testing.T) {
	manager := startStoring(t, filepath.Join(t.TempDir(), "notify"))
	received := make(chan error, 1)
	go func() { received <- manager.receive() }()
	must(t, handoff.RemoveFDs("web", "state"))
	must(t, <-received)
	if got := strings.Join(manager.texts, "|"); got != "FDSTOREREMOVE=1\nFDNAME=web|FDSTOREREMOVE=1\nFDNAME=state" {
		t.Fatalf("systemd gets %q", got)
	}
}

// An item that is stored stays as it is: its reads do not begin to block.
func TestStoreFDsKeepsTheItem(t *testing.T) {
	manager := startStoring(t, filepath.Join(t.TempDir(), "notify"))
	ours, theirs, err := os.Pipe()
	must(t, err)
	defer ours.Close()
	received := make(chan error, 1)
	go func() { received <- manager.receive() }()
	must(t, handoff.StoreFDs(handoff.Item{Name: "pipe", File: theirs}))
	must(t, <-received)
	flags, err := unix.FcntlInt(manager.files[0].Fd(), unix.F_GETFL, 0)
	must(t, err)
	must(t, manager.files[0].Close())
	_, err = io.WriteString(theirs, "x")
	if must(t, err); flags&unix.O_NONBLOCK == 0 {
		t.Fatal("the pipe blocks now")
	}
	must(t, theirs.Close())
	if all, err := io.ReadAll(ours); err != nil || string(all) != "x" {
		t.Fatalf("read %q, %v", all, err)
	}
}

func TestStoreFDsRefuses(t *testing.T) {
	file, err := os.Open(os.DevNull)
	must(t, err)
	defer file.Close()
	t.Setenv("NOTIFY_SOCKET", "")
	if err := handoff.StoreFDs(handoff.Item{File: file}); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "NOTIFY_SOCKET is not set") {
		t.Errorf("without systemd: %v", err)
	}
	t.Setenv("NOTIFY_SOCKET", "vsock:2:1234")
	if err := handoff.StoreFDs(handoff.Item{File: file}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("over vsock: %v", err)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	if err := handoff.StoreFDs(handoff.Item{File: file}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no socket: %v", err)
	}
	startStoring(t, filepath.Join(t.TempDir(), "notify"))
	for _, item := range []handoff.Item{{}, {Name: "a:b", File: file}, {Name: "a\nFDNAME=b", File: file}, {Name: strings.Repeat("n", 256), File: file}, {Name: "é", File: file}} {
		if err := handoff.StoreFDs(item); err == nil {
			t.Errorf("%+v was stored", item)
		}
	}
	if err := handoff.RemoveFDs(""); err == nil {
		t.Error("a removal without a name")
	}
}
