package command_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/tests/programs/demo"
)

// binary is the command as users run it.
var binary string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	directory, err := os.MkdirTemp("", "nc")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(directory)
	binary = filepath.Join(directory, "nearcall")
	build := exec.Command("go", "build", "-o", binary, "github.com/nearcall/nearcall/cmd/nearcall")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A run is what a run of the command printed, and its exit code.
type run struct {
	out, err string
	code     int
}

func nearcall(t *testing.T, args ...string) run {
	t.Helper()
	return nearcallWith(t, "", args...)
}

func nearcallWith(t *testing.T, input string, args ...string) run {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	var out, failures bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &failures
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return run{out.String(), failures.String(), cmd.ProcessState.ExitCode()}
}

// expect checks the exit code and what must be in the output.
func (r run) expect(t *testing.T, code int, texts ...string) run {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, want %d\n%s%s", r.code, code, r.out, r.err)
	}
	for _, text := range texts {
		if !strings.Contains(r.out+r.err, text) {
			t.Fatalf("%q is missing in\n%s%s", text, r.out, r.err)
		}
	}
	return r
}

func (r run) expectOut(t *testing.T, out string) {
	t.Helper()
	if r.expect(t, 0); r.out != out {
		t.Fatalf("got %q, want %q", r.out, out)
	}
}

// serve serves functions and returns the address.
func serve(t *testing.T, register func(*server.Server), options ...server.Option) string {
	t.Helper()
	directory, err := os.MkdirTemp("", "nc")
	must(t, err)
	address := "unix:" + filepath.Join(directory, "s")
	s, err := server.New(append(options, server.WithLogger(slog.New(slog.DiscardHandler)))...)
	must(t, err)
	register(s)
	ctx, stop := context.WithCancel(context.Background())
	listener, err := s.Listen(ctx, address)
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		<-served
		os.RemoveAll(directory)
	})
	return address
}

func serveDemo(t *testing.T) string { return serve(t, demo.Register) }

// schemaFile writes the schema of a server to a file.
func schemaFile(t *testing.T, address string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "schema.json")
	must(t, os.WriteFile(path, []byte(nearcall(t, "schema", "export", address).expect(t, 0).out), 0o600))
	return path
}
