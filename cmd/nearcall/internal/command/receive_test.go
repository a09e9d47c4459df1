package command_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/handoff"
)

// A receiving is a run of `nearcall receive`, and the giver of its connections.
type receiving struct {
	*exec.Cmd
	peer   *handoff.Peer
	mu     sync.Mutex
	errors strings.Builder
}

func (r *receiving) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errors.Write(b)
}

// log returns what it wrote to standard error.
func (r *receiving) log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errors.String()
}

// logs waits for a line in the log.
func (r *receiving) logs(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(r.log(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q is missing in the log:\n%s", text, r.log())
		}
	}
}

// address is where it takes connections.
func (r *receiving) address() string { return r.Args[4] }

func startReceive(t *testing.T, args ...string) *receiving {
	t.Helper()
	directory, err := os.MkdirTemp("", "nc")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(directory) })
	address := "unix:" + filepath.Join(directory, "s")
	r := &receiving{Cmd: exec.Command(binary, append([]string{"receive", "--verbose", "--address", address}, args...)...)}
	r.Stderr = r
	out, err := r.StdoutPipe()
	must(t, err)
	must(t, r.Start())
	t.Cleanup(func() {
		_ = r.Process.Kill()
		_ = r.Wait()
		if t.Failed() {
			t.Log(r.log())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "Taking connections at "+address+".") {
		t.Fatalf("it prints %q: %v\n%s", line, err, r.log())
	}
	r.peer, err = handoff.Dial(t.Context(), address)
	must(t, err)
	t.Cleanup(func() { _ = r.peer.Close() })
	return r
}

// client makes a connection, of which the program gets the other end.
func connection(t *testing.T) (client, served *net.TCPConn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	dialled, err := net.Dial("tcp", listener.Addr().String())
	must(t, err)
	accepted, err := listener.Accept()
	must(t, err)
	t.Cleanup(func() { dialled.Close(); accepted.Close() })
	return dialled.(*net.TCPConn), accepted.(*net.TCPConn)
}

func (r *receiving) give(t *testing.T, m handoff.Meta) (client *net.TCPConn) {
	t.Helper()
	client, served := connection(t)
	must(t, r.peer.SendConn(t.Context(), served, m))
	return client
}

// converse writes, ends its side, and returns all that the program answers up to
// the end that the client sees.
func converse(t *testing.T, client *net.TCPConn, text string) string {
	t.Helper()
	_, err := io.WriteString(client, text)
	must(t, errors.Join(err, client.CloseWrite(), client.SetReadDeadline(time.Now().Add(20*time.Second))))
	all, err := io.ReadAll(client)
	must(t, err)
	return string(all)
}

// Programs that know nothing of handoff.
func TestReceiveStdio(t *testing.T) {
	for name, row := range map[string]struct {
		program    []string
		text, want string
	}{
		"cat":   {[]string{"cat"}, "a line\nand more", "a line\nand more"},
		"Perl":  {[]string{"perl", "-e", `$| = 1; while (<STDIN>) { s/\r?\n//; print "you said $_, $ENV{REMOTE_ADDR}\n"; last if $_ eq "quit" }`}, "hello\nquit\nunread", "you said hello, 127.0.0.1\nyou said quit, 127.0.0.1\n"},
		"large": {[]string{"cat"}, strings.Repeat("0123456789abcdef", 1<<16), strings.Repeat("0123456789abcdef", 1<<16)},
	} {
		t.Run(name, func(t *testing.T) {
			r := startReceive(t, append([]string{"--"}, row.program...)...)
			client := r.give(t, handoff.Meta{})
			got := make(chan string)
			go func() {
				all, _ := io.ReadAll(client)
				got <- string(all)
			}()
			_, err := io.WriteString(client, row.text)
			must(t, errors.Join(err, client.CloseWrite()))
			if answer := <-got; answer != row.want {
				t.Errorf("%d bytes %.60q; want %d bytes %.60q", len(answer), answer, len(row.want), row.want)
			}
		})
	}
}

// pythonService is written as for systemd with Accept=yes.
const pythonService = `
import os, socket
assert os.environ["LISTEN_FDS"] == "1" and os.environ["LISTEN_PID"] == str(os.getpid()), os.environ
assert os.environ["LISTEN_FDNAMES"] == "connection"
assert os.get_blocking(3), "it does not block"
assert os.fstat(0).st_ino != os.fstat(3).st_ino
with socket.socket(fileno=3) as s:
    s.sendall(b"%s port %d, named %s with %s, got " % (s.family.name.encode(), s.getpeername()[1] == int(os.environ["REMOTE_PORT"]),
        os.environ.get("HANDOFF_NAME", "nothing").encode(), os.environb.get(b"HANDOFF_MESSAGE", b"nothing")) + s.recv(100))
`

func TestReceiveListenFDs(t *testing.T) {
	r := startReceive(t, "--listen-fds", "--", "python3", "-c", pythonService)
	for _, row := range []struct {
		meta handoff.Meta
		want string
	}{
		{handoff.Meta{}, "AF_INET port 1, named nothing with nothing, got hello"},
		{handoff.Meta{Name: "shop", Message: []byte(`{"tenant": "é"}`)}, `AF_INET port 1, named shop with {"tenant": "é"}, got hello`},
		{handoff.Meta{Message: []byte("a\x00b")}, "AF_INET port 1, named nothing with nothing, got hello"},
	} {
		if got := converse(t, r.give(t, row.meta), "hello"); got != row.want {
			t.Errorf("got %q, want %q", got, row.want)
		}
	}
}

// Standard input is the same in blocking mode, although its giver's was not.
func TestReceiveBlocks(t *testing.T) {
	r := startReceive(t, "--stdio", "--", "python3", "-c", `import os; os.write(1, b"%d %d" % (os.get_blocking(0), os.get_blocking(1)))`)
	if got := converse(t, r.give(t, handoff.Meta{}), ""); got != "1 1" {
		t.Errorf("got %q", got)
	}
}

// Beyond --max a connection stays its giver's.
func TestReceiveMax(t *testing.T) {
	r := startReceive(t, "--max", "2", "--", "cat")
	first, second := r.give(t, handoff.Meta{}), r.give(t, handoff.Meta{})
	client, served := connection(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := r.peer.SendConn(ctx, served, handoff.Meta{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the third: %v", err)
	}
	if got := converse(t, first, "first"); got != "first" {
		t.Fatalf("the first answers %q", got)
	}
	must(t, r.peer.SendConn(t.Context(), served, handoff.Meta{}))
	for conn, text := range map[*net.TCPConn]string{second: "second", client: "third"} {
		if got := converse(t, conn, text); got != text {
			t.Errorf("the %s answers %q", text, got)
		}
	}
}

// Bytes cannot be put into a program; who gives some is told, and keeps the
// connection.
func TestReceiveRefusesPrefix(t *testing.T) {
	r := startReceive(t, "--", "cat")
	client, served := connection(t)
	if err := r.peer.SendConn(t.Context(), served, handoff.Meta{Prefix: []byte("GET /")}); !errors.Is(err, handoff.ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
	must(t, r.peer.SendConn(t.Context(), served, handoff.Meta{}))
	if got := converse(t, client, "whole"); got != "whole" {
		t.Fatalf("then %q", got)
	}
}

// A client that is gone when its program starts does no harm.
func TestReceiveOfAClientThatIsGone(t *testing.T) {
	r := startReceive(t, "--", "cat")
	client, served := connection(t)
	must(t, errors.Join(client.SetLinger(0), client.Close()))
	_, err := served.Read(make([]byte, 1)) // the reset has arrived
	if err == nil {
		t.Fatal("no reset")
	}
	must(t, r.peer.SendConn(t.Context(), served, handoff.Meta{}))
	r.logs(t, "msg=ended")
	if got := converse(t, r.give(t, handoff.Meta{}), "next"); got != "next" {
		t.Fatalf("got %q", got)
	}
}

// Many clients share few places, and nothing is left when they have gone.
func TestReceiveManyLeavesNothing(t *testing.T) {
	r := startReceive(t, "--max", "4", "--", "cat")
	if got := converse(t, r.give(t, handoff.Meta{}), "first"); got != "first" {
		t.Fatalf("got %q", got)
	}
	before := r.descriptors(t)
	var clients sync.WaitGroup
	for i := range 100 {
		client, served := connection(t)
		clients.Go(func() {
			if err := r.peer.SendConn(t.Context(), served, handoff.Meta{}); err != nil {
				t.Error(err)
				return
			}
			_, _ = fmt.Fprint(client, i)
			_ = client.CloseWrite()
			if all, err := io.ReadAll(client); err != nil || string(all) != fmt.Sprint(i) {
				t.Errorf("client %d got %q, %v", i, all, err)
			}
		})
	}
	clients.Wait()
	for deadline := time.Now().Add(20 * time.Second); r.descriptors(t) > before || r.children(t) != ""; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors where %d were, children %s", r.descriptors(t), before, r.children(t))
		}
	}
}

// descriptors returns how many it has.
func (r *receiving) descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.Process.Pid))
	must(t, err)
	return len(entries)
}

// children returns those that run, and those that nobody has waited for.
func (r *receiving) children(t *testing.T) string {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", r.Process.Pid))
	must(t, err)
	var all strings.Builder
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) { // the thread has ended
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// What runs is finished, and nothing more is taken.
func TestReceiveFinishes(t *testing.T) {
	r := startReceive(t, "--", "cat")
	client := r.give(t, handoff.Meta{})
	must(t, r.Process.Signal(syscall.SIGTERM))
	<-r.peer.Done()
	_, served := connection(t)
	if err := r.peer.SendConn(t.Context(), served, handoff.Meta{}); err == nil {
		t.Fatal("it takes more")
	}
	if got := converse(t, client, "still here"); got != "still here" {
		t.Fatalf("got %q", got)
	}
	must(t, r.Wait())
}

// A second signal is passed on.
func TestReceiveFinishesAtOnce(t *testing.T) {
	r := startReceive(t, "--", "cat")
	client := r.give(t, handoff.Meta{})
	must(t, r.Process.Signal(syscall.SIGTERM))
	<-r.peer.Done()
	ended := make(chan struct{})
	go func() {
		_ = r.Wait()
		close(ended)
	}()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-time.After(20 * time.Millisecond):
			_ = r.Process.Signal(syscall.SIGTERM)
		}
	}
	if code := r.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := io.ReadAll(client); err != nil {
		t.Error(err)
	}
}

func TestReceiveLogs(t *testing.T) {
	r := startReceive(t, "--json", "--", "sh", "-c", "echo oops >&2; exit 3")
	client := r.give(t, handoff.Meta{Name: "shop"})
	r.logs(t, "oops\n")
	r.logs(t, `"msg":"the program failed"`)
	r.logs(t, `"error":"exit status 3"`)
	r.logs(t, fmt.Sprintf(`"remote":"%s","name":"shop","pid":`, client.LocalAddr()))
}

func TestReceiveRefusesItsCommandLine(t *testing.T) {
	address := "unix:" + filepath.Join(t.TempDir(), "s")
	for _, row := range []struct {
		code int
		says string
		args []string
	}{
		{2, "--address is missing", []string{"--", "cat"}},
		{2, "nearcall receive --address unix:/path", []string{"--address", address}},
		{2, "at least one program", []string{"--address", address, "--max", "0", "cat"}},
		{2, "there is no such user", []string{"--address", address, "--user", "no such", "cat"}},
		{2, "in octal", []string{"--address", address, "--mode", "rw", "cat"}},
		{2, "none of the others can be", []string{"--address", address, "--stdio", "--listen-fds", "cat"}},
		{1, "executable file not found", []string{"--address", address, "no-such-program"}},
		{1, "does not exist", []string{"--address", "unix:/no/such/folder/s", "cat"}},
	} {
		nearcall(t, append([]string{"receive"}, row.args...)...).expect(t, row.code, row.says)
	}
	r := startReceive(t, "--mode", "0600", "--user", "nobody", "--user", "12345", "--", "cat")
	nearcall(t, "receive", "--address", r.address(), "cat").expect(t, 1, "already running")
	info, err := os.Stat(strings.TrimPrefix(r.address(), "unix:"))
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v", info.Mode())
	}
}
