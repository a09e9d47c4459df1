package inspect_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/resident/inspect"
	"github.com/nearcall/nearcall/resident/internal/request"
)

// listenAt listens at a path that is too long for an address, and reports once.
func listenAt(t *testing.T, path string) {
	t.Helper()
	directory, err := os.Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer directory.Close()
	listener, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", directory.Fd(), filepath.Base(path)))
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		question := make([]byte, request.HeaderBytes)
		_, _ = conn.Read(question)
		_, _ = conn.Write(request.Frame{Type: request.Report, Text: `{"runs":7}`}.Append(nil))
	}()
}

func TestALongDirectory(t *testing.T) {
	directory := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	place := inspect.Place{Name: "program", Socket: filepath.Join(directory, "program.sock")}
	listenAt(t, place.Socket)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	report, err := place.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if report.Runs != 7 {
		t.Errorf("runs %d, expected 7", report.Runs)
	}
}
