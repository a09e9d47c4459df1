package pipe_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/nearcall/nearcall/handoff/internal/pipe"
)

// The variables that make this program the process at the other end.
const (
	childTask = "NEARCALL_PIPE_TASK"
	childPipe = "NEARCALL_PIPE_NAME"
)

func TestMain(m *testing.M) {
	task := os.Getenv(childTask)
	if task == "" {
		os.Exit(m.Run())
	}
	if err := child(task, os.Getenv(childPipe)); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
}

// tasks are what a child does with what came through the pipe; the text is its
// answer.
var tasks = map[string]func(conn *pipe.Conn) (answer string, err error){
	"echo": func(conn *pipe.Conn) (string, error) {
		return bufio.NewReader(conn).ReadString('\n')
	},
	"file": func(conn *pipe.Conn) (string, error) {
		file, err := receive(conn, pipe.FileResourceBytes, func(resource []byte) (*os.File, error) {
			return pipe.OpenFile(resource, "given")
		})
		if err != nil {
			return "", err
		}
		defer func() { _ = file.Close() }()
		content, err := io.ReadAll(file)
		return string(content), err
	},
	"socket": func(conn *pipe.Conn) (string, error) {
		socket, err := receive(conn, pipe.SocketResourceBytes, pipe.OpenSocket)
		if err != nil {
			return "", err
		}
		defer func() { _ = windows.Closesocket(socket) }()
		return "sent\n", sendRaw(socket, "from the child")
	},
}

func receive[T any](conn *pipe.Conn, bytes int, open func([]byte) (T, error)) (opened T, err error) {
	resource := make([]byte, bytes)
	if _, err := io.ReadFull(conn, resource); err != nil {
		return opened, err
	}
	return open(resource)
}

func child(task, name string) error {
	conn, err := pipe.Dial(context.Background(), name)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	answer, err := tasks[task](conn)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(conn, answer); err != nil {
		return err
	}
	// A pipe forgets what was not read when its end is closed.
	_, _ = conn.Read(make([]byte, 1))
	return nil
}

// start runs this program as the other end of the listener's next connection.
func start(t *testing.T, listener *pipe.Listener, name, task string) (*pipe.Conn, *exec.Cmd) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), childTask+"="+task, childPipe+"="+name)
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		if err := command.Wait(); err != nil {
			t.Errorf("the child: %v", err)
		}
	})
	return conn, command
}
