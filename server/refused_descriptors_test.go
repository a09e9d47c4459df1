package server_test

import (
	"bufio"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

const (
	// refusedPath in the environment makes this program the server of
	// TestTooManyDescriptorsOnTheWay.
	refusedPath        = "NEARCALL_TEST_REFUSED"
	otherUser          = 12345
	filesOfReply       = 8
	descriptorsOpenMax = 64 // of the server, open and on their way
	// The kernel counts before it adds.
	repliesTaken = descriptorsOpenMax/filesOfReply + 1
)

// A server that has too many descriptors on the way (ETOOMANYREFS) waits with the next reply for
// the write timeout, and then says that it is lost; nothing else waits for that. The server
// is a process of another user, because root has no such limit.
func TestTooManyDescriptorsOnTheWay(t *testing.T) {
	if path := os.Getenv(refusedPath); path != "" {
		serveUntilRefused(t, path)
		return
	}
	c := connectWithFiles(t, startAsOtherUser(t))
	// Not read yet: what is read is on the way no more. Each answer is waited for, because
	// those that are made at a time have descriptors open at a time.
	for range repliesTaken {
		c.sendAndAwaitAnswer(c.request("many", 0, []byte{0x90}))
	}
	c.sendAndAwaitAnswer(append(c.request("many", 0, []byte{0x90}), c.request("one", 0, []byte{0x90})...))
	c.sendAndAwaitAnswer(nil)
	replies, lost, ones := 0, 0, 0
	for range repliesTaken + 2 {
		frame := c.next()
		switch _, value, failure := c.decodeOutcome(frame); {
		case frame.Descriptors == filesOfReply:
			replies++
		case failure != nil:
			wantFailure(t, failure, status.ResourceExhausted, status.OutcomeExecutedResultLost)
			lost++
		case value == int64(1):
			ones++
		}
	}
	if replies != repliesTaken || lost != 1 || ones != 1 {
		t.Errorf("%d replies with files, %d lost, %d others", replies, lost, ones)
	}
	c.send(c.request("many", 0, []byte{0x90}))
	if frame := c.next(); frame.Descriptors != filesOfReply {
		t.Errorf("there is room again, and %d descriptors came", frame.Descriptors)
	}
}

const refusedWriteTimeout = 200 * time.Millisecond

// sendAndAwaitAnswer returns when more bytes of the server lie in the socket, without
// reading them.
func (c *caller) sendAndAwaitAnswer(request []byte) {
	c.t.Helper()
	former := c.unread()
	c.send(request)
	for until := time.Now().Add(testTimeout); c.unread() <= former; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			c.t.Fatal("no answer")
		}
	}
}

func (c *caller) unread() (bytes int) {
	c.t.Helper()
	raw, err := c.conn.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { bytes, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return bytes
}

// decodeOutcome is decode, for replies that no plain value stands for too.
func (c *caller) decodeOutcome(frame wire.Frame) (id uint64, value any, failure *status.Error) {
	if frame.Descriptors > 0 {
		return frame.CallID, nil, nil
	}
	return c.decode(frame)
}

func startAsOtherUser(t *testing.T) (path string) {
	t.Helper()
	directory, err := os.MkdirTemp("", "nc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(directory) })
	text, err := os.ReadFile(os.Args[0])
	program := filepath.Join(directory, "server")
	if err == nil {
		err = os.WriteFile(program, text, 0o755)
	}
	if err == nil {
		err = os.Chmod(directory, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(directory, "s")
	child := exec.Command(program, "-test.run=^TestTooManyDescriptorsOnTheWay$")
	child.Env = append(os.Environ(), refusedPath+"="+path)
	child.Dir, child.Stderr = directory, os.Stderr
	if os.Geteuid() == 0 {
		child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}}
	}
	if line := startChild(t, child); line != "ready\n" {
		t.Fatalf("the server says %q", line)
	}
	return path
}

// startChild starts a server that ends with its input, and returns the line that it says when it serves.
func startChild(t *testing.T, child *exec.Cmd) (line string) {
	t.Helper()
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		child.Wait()
	})
	if line, err = bufio.NewReader(output).ReadString('\n'); err != nil {
		t.Fatalf("the server says %q, %v", line, err)
	}
	return line
}

func serveUntilRefused(t *testing.T, path string) {
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: descriptorsOpenMax, Max: descriptorsOpenMax}); err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.WithLogger(slog.New(slog.DiscardHandler)), server.WithFileDescriptors(nil),
		server.WithWriteTimeout(refusedWriteTimeout))
	if err != nil {
		t.Fatal(err)
	}
	register(t, s, "many", func() (files []*os.File, err error) {
		for range filesOfReply {
			file, err := os.Open(os.DevNull)
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
		return files, nil
	})
	register(t, s, "one", func() int64 { return 1 })
	listener, err := s.Listen(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(t.Context(), listener)
	os.Stdout.WriteString("ready\n")
	io.Copy(io.Discard, os.Stdin)
}
