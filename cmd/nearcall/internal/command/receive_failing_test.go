package command_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/handoff"
)

// A giver takes connections back.
func (r *receiving) giver(t *testing.T) (*handoff.Peer, <-chan *handoff.Conn) {
	t.Helper()
	back := make(chan *handoff.Conn, 16)
	p, err := handoff.Dial(t.Context(), r.address(), handoff.WithTakeBack(func(c *handoff.Conn) { back <- c }))
	must(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p, back
}

// installed returns a copy of cat.
func installed(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "program")
	install(t, path)
	return path
}

// install publishes the program whole.
func install(t *testing.T, path string) {
	t.Helper()
	program, err := os.ReadFile("/bin/cat")
	must(t, err)
	must(t, errors.Join(os.WriteFile(path+".new", program, 0o755), os.Rename(path+".new", path)))
}

func awaitReturn(t *testing.T, back <-chan *handoff.Conn) *handoff.Conn {
	t.Helper()
	select {
	case c := <-back:
		return c
	case <-time.After(20 * time.Second):
		t.Fatal("it does not come back")
		return nil
	}
}

func offer(t *testing.T, p *handoff.Peer, served net.Conn, wait time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	return p.SendConn(ctx, served, handoff.Meta{})
}

// takenWithout damages the program while connections are awaited, and returns the
// client of one that was taken then. Nothing tells when they are awaited: what comes
// too early is not taken, and it tries again.
func (r *receiving) takenWithout(t *testing.T, p *handoff.Peer, path string, damage func(path string) error) (client *net.TCPConn) {
	t.Helper()
	for attempt := 1; attempt <= 20; attempt++ {
		install(t, path)
		first, served := connection(t)
		must(t, offer(t, p, served, 20*time.Second))
		must(t, first.Close())
		for end := time.Now().Add(20 * time.Second); strings.Count(r.log(), "msg=ended")+strings.Count(r.log(), "the program failed") < attempt; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the program does not end")
			}
		}
		time.Sleep(time.Duration(attempt) * time.Millisecond)
		must(t, damage(path))
		client, served = connection(t)
		if err := offer(t, p, served, 300*time.Millisecond); err == nil {
			return client
		} else if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	t.Fatal("nothing is taken")
	return nil
}

// What a missing program has taken comes back, nothing more is taken, and when the
// program is there again it gets what waits.
func TestReceiveHandsBackWhatItCannotStart(t *testing.T) {
	for name, row := range map[string]struct {
		style  []string
		damage func(path string) error
	}{
		"missing":        {nil, os.Remove},
		"not executable": {nil, func(path string) error { return os.Chmod(path, 0o644) }},
		"bad format": {nil, func(path string) error {
			return errors.Join(os.WriteFile(path+".new", []byte{0x7f, 'E', 'L', 'F', 0}, 0o755), os.Rename(path+".new", path))
		}},
		"missing, as descriptor 3": {[]string{"--listen-fds"}, os.Remove},
	} {
		t.Run(name, func(t *testing.T) {
			path := installed(t)
			program := []string{"--", path}
			if row.style != nil {
				program = append(row.style, "--", path, "/dev/fd/3")
			}
			r := startReceive(t, program...)
			p, back := r.giver(t)
			client := r.takenWithout(t, p, path, row.damage)
			returned := awaitReturn(t, back)
			r.logs(t, `connection="handed back"`)
			_, err := io.WriteString(client, "hello")
			must(t, err)
			text := make([]byte, len("hello"))
			if _, err := io.ReadFull(returned, text); err != nil || string(text) != "hello" {
				t.Fatalf("of what came back %q is read, %v", text, err)
			}

			install(t, path)
			client, served := connection(t)
			must(t, offer(t, p, served, 20*time.Second))
			if row.style == nil {
				if got := converse(t, client, "again"); got != "again" {
					t.Errorf("then %q", got)
				}
			}
			select {
			case <-back:
				t.Error("it came back")
			default:
			}
		})
	}
}

// A giver that takes none back has its connection closed; further ones stay its own.
func TestReceiveTakesNothingWithoutItsProgram(t *testing.T) {
	path := installed(t)
	r := startReceive(t, "--", path)
	client := r.takenWithout(t, r.peer, path, os.Remove)
	must(t, client.SetReadDeadline(time.Now().Add(20*time.Second)))
	if all, err := io.ReadAll(client); len(all) > 0 || err != nil {
		t.Errorf("the client reads %q, %v", all, err)
	}
	_, served := connection(t)
	if err := offer(t, r.peer, served, 500*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the next: %v", err)
	}
	r.logs(t, "no connection is taken")
	if !strings.Contains(r.log(), "no such file or directory") {
		t.Errorf("the log does not say why:\n%s", r.log())
	}
	begin := time.Now()
	must(t, r.Process.Signal(syscall.SIGTERM))
	must(t, r.Wait())
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v to end", took)
	}
}

// Of connections whose program ends at once, because a shell or env cannot run it,
// few are taken.
func TestReceiveTakesLittleForAProgramThatEndsAtOnce(t *testing.T) {
	for _, style := range []string{"--stdio", "--listen-fds"} {
		r := startReceive(t, style, "--", "env", "no-such-program")
		taken := 0
		for range 20 {
			_, served := connection(t)
			if offer(t, r.peer, served, 50*time.Millisecond) == nil {
				taken++
			}
		}
		if taken < 1 || taken > 5 {
			t.Errorf("%s: %d of 20 were taken", style, taken)
		}
		r.logs(t, "exit status 127")
	}
}

// That a program fails is not that it does not start.
func TestReceiveGoesOnWithProgramsThatFail(t *testing.T) {
	r := startReceive(t, "--", "sh", "-c", "exit 1")
	for range 20 {
		_, served := connection(t)
		must(t, offer(t, r.peer, served, 20*time.Second))
	}
	if strings.Contains(r.log(), "could not be started") {
		t.Errorf("the log:\n%s", r.log())
	}
}
