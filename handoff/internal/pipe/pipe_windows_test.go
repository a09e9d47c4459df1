package pipe_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nearcall/nearcall/handoff/internal/pipe"
)

func listen(t *testing.T) (*pipe.Listener, string) {
	t.Helper()
	name := "nearcall-test-" + strconv.Itoa(os.Getpid()) + "-" + t.Name()
	listener, err := pipe.Listen(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener, name
}

func TestBytesToAnotherProcess(t *testing.T) {
	listener, name := listen(t)
	conn, command := start(t, listener, name, "echo")
	if int(conn.Process()) != command.Process.Pid {
		t.Errorf("the pipe says process %d, the child is %d", conn.Process(), command.Process.Pid)
	}
	if same, err := conn.IsSameUser(); err != nil || !same {
		t.Errorf("a child of ours: same user %v, %v", same, err)
	}
	if _, err := io.WriteString(conn, "there and back\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := bufio.NewReader(conn).ReadString('\n'); got != "there and back\n" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestManyClientsAtOnce(t *testing.T) {
	listener, name := listen(t)
	const clients = 50
	var dialled sync.WaitGroup
	for range clients {
		dialled.Go(func() {
			conn, err := pipe.Dial(context.Background(), name)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			if got, err := io.ReadAll(io.LimitReader(conn, 1)); string(got) != "x" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	for range clients {
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, "x"); err != nil {
			t.Fatal(err)
		}
	}
	dialled.Wait()
}

func TestDeadlineEndsARead(t *testing.T) {
	listener, name := listen(t)
	conn, _ := start(t, listener, name, "echo")
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a read past its deadline: %v", err)
	}
	// The deadline leaves the pipe usable.
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "late\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := bufio.NewReader(conn).ReadString('\n'); got != "late\n" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestCloseEndsAccept(t *testing.T) {
	listener, _ := listen(t)
	ended := make(chan error)
	go func() {
		_, err := listener.Accept()
		ended <- err
	}()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept ended by %v", err)
	}
	if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close: %v", err)
	}
}

func TestNames(t *testing.T) {
	_, name := listen(t)
	for _, bad := range []string{"", `a\b`, "a/b"} {
		if wrong, err := pipe.Listen(bad); err == nil {
			_ = wrong.Close()
			t.Errorf("the name %q was taken", bad)
		}
	}
	if _, err := pipe.Dial(context.Background(), name+"-nobody"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a pipe that nobody made: %v", err)
	}
}

func TestOneListenerPerName(t *testing.T) {
	onlyOnWindows(t, "FILE_FLAG_FIRST_PIPE_INSTANCE")
	_, name := listen(t)
	if second, err := pipe.Listen(name); err == nil {
		_ = second.Close()
		t.Error("two listeners have one name")
	}
}
