package server_test

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/server"
)

const (
	// fewDescriptorsIn in the environment makes this program the server of
	// TestOneUserLeavesDescriptors.
	fewDescriptorsIn = "NEARCALL_TEST_FEW_DESCRIPTORS"
	fewDescriptors   = 300
	promptly         = 20 * time.Second // long before the test times out
)

// TestOneUserLeavesDescriptors: a user who connects as often as the server's process has
// descriptors shuts out neither the operators nor, by peers that are turned away and say
// nothing, anybody for moments.
func TestOneUserLeavesDescriptors(t *testing.T) {
	if directory := os.Getenv(fewDescriptorsIn); directory != "" {
		serveFewDescriptors(t, directory)
		return
	}
	directory := t.TempDir()
	address := startFewDescriptors(t, directory)
	greeting := hello()
	for range fewDescriptors {
		dialFrom(t, "127.0.0.1", address).Write(greeting.Append(nil))
	}
	for range fewDescriptors {
		dialFrom(t, "127.0.0.1", address)
	}
	// Connections are accepted in their order: when this one is turned away, all others have been.
	last := dialFrom(t, "127.0.0.1", address)
	last.SetDeadline(time.Now().Add(promptly))
	if _, err := io.Copy(io.Discard, last); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("one more connection of the user is not turned away")
	}
	operator, err := net.Dial("unix", filepath.Join(directory, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	operator.SetDeadline(time.Now().Add(promptly))
	if answer := (&caller{t: t}).simpleOn(operator, `{"f":"one"}`); !answer.OK {
		t.Errorf("an operator: %+v", answer)
	}
	log, err := os.ReadFile(filepath.Join(directory, "log"))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(log); strings.Count(text, "WithConnections says") != 1 || strings.Contains(text, "accept failed") {
		t.Errorf("want one warning about the limit, and no descriptor missing: %.1200s", text)
	}
}

func startFewDescriptors(t *testing.T, directory string) (address string) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestOneUserLeavesDescriptors$")
	child.Env = append(os.Environ(), fewDescriptorsIn+"="+directory)
	child.Stderr = os.Stderr
	return strings.TrimSpace(startChild(t, child))
}

// serveFewDescriptors serves a socket, for operators, and a loopback address, over which nobody
// is one, until its input ends.
func serveFewDescriptors(t *testing.T, directory string) {
	limit := unix.Rlimit{Cur: fewDescriptors, Max: fewDescriptors}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(directory, "log"))
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, server.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	register(t, s, "one", func() int64 { return 1 })
	local, err := s.Listen(t.Context(), "unix:"+filepath.Join(directory, "s"))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := s.Listen(t.Context(), "tcp:127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(t.Context(), local)
	go s.Serve(t.Context(), listener)
	os.Stdout.WriteString(listener.Addr().String() + "\n")
	io.Copy(io.Discard, os.Stdin)
}
