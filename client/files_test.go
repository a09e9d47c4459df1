package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// fileClient returns a client of a server in a process of its own that passes
// files.
func fileClient(t *testing.T, options ...client.Option) *client.Client {
	t.Helper()
	return newClient(t, startServerWith(t, "", "-files").address, options...)
}

func fileWith(t *testing.T, text string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	file, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { file.Close() })
	return file
}

func readAll(t *testing.T, from io.ReadCloser) string {
	t.Helper()
	defer from.Close()
	data, err := io.ReadAll(from)
	must(t, err)
	return string(data)
}

func TestFileAsArgument(t *testing.T) {
	c := fileClient(t)
	file := fileWith(t, "in the file")
	got, err := client.Call[[]byte](t.Context(), c, "file_read", file)
	must(t, err)
	if string(got) != "in the file" {
		t.Errorf("got %q", got)
	}
	// It stays the caller's, and shares its position with the function's.
	if _, err := file.Seek(3, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	read := client.Func1[*os.File, []byte](c, "file_read")
	if got, err := read(t.Context(), file); err != nil || string(got) != "the file" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestPipeAsArgument(t *testing.T) {
	c := fileClient(t)
	reader, writer, err := os.Pipe()
	must(t, err)
	n, err := client.Call[int64](t.Context(), c, "file_write", writer, []byte("through a pipe"))
	must(t, err)
	must(t, writer.Close())
	if got := readAll(t, reader); got != "through a pipe" || n != 14 {
		t.Errorf("got %q, %d", got, n)
	}
}

func TestFileAsResult(t *testing.T) {
	c := fileClient(t)
	path := fileWith(t, "opened there").Name()
	file, err := client.Call[*os.File](t.Context(), c, "file_open", path)
	must(t, err)
	if got := readAll(t, file); got != "opened there" {
		t.Errorf("got %q", got)
	}
	_, err = client.Call[*os.File](t.Context(), c, "file_open", path+"none")
	if !errors.Is(err, status.NotFound) {
		t.Error(err)
	}
}

// Both ends of a pipe come in one reply, and deadlines of theirs work: they are
// driven by the poller.
func TestPipeAsResult(t *testing.T) {
	c := fileClient(t)
	pipe := client.Func0[struct{ Reader, Writer *os.File }](c, "file_pipe")
	both, err := pipe(t.Context())
	must(t, err)
	reader, writer := both.Reader, both.Writer
	must(t, reader.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
	if _, err := reader.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("an empty pipe: %v", err)
	}
	must(t, reader.SetReadDeadline(time.Time{}))
	_, err = io.WriteString(writer, "both ends")
	must(t, err)
	must(t, writer.Close())
	if got := readAll(t, reader); got != "both ends" {
		t.Errorf("got %q", got)
	}
}

type bundle struct {
	Name  string    `nearcall:"name"`
	File  *os.File  `nearcall:"file"`
	Spare **os.File `nearcall:"spare"`
}

func TestFilesInsideValues(t *testing.T) {
	c := fileClient(t)
	first, second := fileWith(t, "first"), fileWith(t, "second")
	for _, files := range []any{[]*os.File{first, second}, []any{first, second}} {
		_, err := first.Seek(0, io.SeekStart)
		must(t, err)
		_, err = second.Seek(0, io.SeekStart)
		must(t, err)
		joined, err := client.Call[[]byte](t.Context(), c, "file_join", files)
		must(t, err)
		if string(joined) != "firstsecond" {
			t.Errorf("got %q", joined)
		}
	}
	_, err := second.Seek(0, io.SeekStart)
	must(t, err)
	got, err := client.Call[bundle](t.Context(), c, "file_bundle", bundle{Name: "a", File: first, Spare: &second})
	must(t, err)
	if text := readAll(t, got.File); got.Name != "A" || got.Spare != nil || text != "second" {
		t.Errorf("got %+v, %q", got, text)
	}
}

func TestConnections(t *testing.T) {
	c := fileClient(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()

	made, err := client.Call[*net.TCPConn](t.Context(), c, "connection_dial", listener.Addr().String())
	must(t, err)
	accepted, err := listener.Accept()
	must(t, err)
	must(t, made.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
	if _, err := made.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a silent connection: %v", err)
	}
	must(t, made.SetReadDeadline(time.Time{}))

	err = c.Call(t.Context(), "connection_greet", nil, accepted, "hello")
	must(t, err)
	must(t, accepted.Close())
	if got := readAll(t, made); got != "hello" {
		t.Errorf("got %q", got)
	}
}

func TestWrongDescriptors(t *testing.T) {
	c := fileClient(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	listening, err := listener.(*net.TCPListener).File()
	must(t, err)
	defer listening.Close()
	for name, call := range map[string]func() error{
		"a file as connection": func() error {
			return c.Call(t.Context(), "connection_greet", nil, fileWith(t, ""), "")
		},
		"a listener as connection": func() error { return c.Call(t.Context(), "connection_greet", nil, listening, "") },
		"a number as file":         func() error { return c.Call(t.Context(), "file_read", nil, 0) },
		"a file as number":         func() error { return c.Call(t.Context(), "sleep", nil, fileWith(t, "")) },
		"a file as any":            func() error { return c.Call(t.Context(), "identity", nil, fileWith(t, "")) },
		"nil":                      func() error { return c.Call(t.Context(), "file_read", nil, (*os.File)(nil)) },
		"closed": func() error {
			file := fileWith(t, "")
			file.Close()
			return c.Call(t.Context(), "file_read", nil, file)
		},
		"too many": func() error {
			return c.Call(t.Context(), "file_join", nil, make17(t))
		},
		"by number in MessagePack": func() error {
			_, err := c.CallMessagePack(t.Context(), "file_read", []byte{0x91, 0xD4, 1, 0}, nil)
			return err
		},
	} {
		expectFailure(t, call(), status.InvalidArgument, status.OutcomeNotExecuted)
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// make17 returns one file more than travel with a call.
func make17(t *testing.T) (files []*os.File) {
	for range wire.FileDescriptorsPerFrameMax + 1 {
		files = append(files, fileWith(t, ""))
	}
	return files
}

func TestTooManyFilesInAResult(t *testing.T) {
	c := fileClient(t)
	files, err := client.Call[[]*os.File](t.Context(), c, "file_many", wire.FileDescriptorsPerFrameMax)
	must(t, err)
	for _, file := range files {
		must(t, file.Close())
	}
	err = c.Call(t.Context(), "file_many", nil, wire.FileDescriptorsPerFrameMax+1)
	expectFailure(t, err, status.Internal, status.OutcomeExecutedResultLost)
}

// A server that does not allow it says so before anything runs.
func TestFilesAreNotAllowed(t *testing.T) {
	for name, serve := range map[string]func(*testing.T) string{
		"over a local socket": func(t *testing.T) string { return demoServer(t) },
		"over TCP":            func(t *testing.T) string { return serveDemo(t, "tcp:127.0.0.1:0") },
	} {
		t.Run(name, func(t *testing.T) {
			err := newClient(t, serve(t)).Call(t.Context(), "identity", nil, fileWith(t, ""))
			expectFailure(t, err, status.PermissionDenied, status.OutcomeNotExecuted)
			if !strings.Contains(err.Error(), "WithFileDescriptors") && !strings.Contains(err.Error(), "local sockets only") {
				t.Error(err)
			}
		})
	}
}

// Frames with files go over the socket, also where all others are in memory.
func TestFilesBesideSharedMemory(t *testing.T) {
	c := fileClient(t)
	file := fileWith(t, "x")
	for i := 0; c.Transport() != "shared memory"; i++ {
		if i > 10_000 {
			t.Fatal("no shared memory")
		}
		_, err := client.Call[int64](t.Context(), c, "one")
		must(t, err)
	}
	for range 100 {
		_, err := client.Call[int64](t.Context(), c, "one")
		must(t, err)
		same, err := client.Call[*os.File](t.Context(), c, "file_same", file)
		must(t, err)
		must(t, same.Close())
	}
	if c.Transport() != "shared memory" {
		t.Error(c.Transport())
	}
}

// A frame with a file and much else: the payload arrives in many pieces.
func TestFilesWithLargePayloads(t *testing.T) {
	c := fileClient(t)
	const bytes = 3 << 20
	type fileAndBytes struct {
		File *os.File
		Data []byte
	}
	both, err := client.Call[fileAndBytes](t.Context(), c, "file_with", bytes)
	must(t, err)
	must(t, both.File.Close())
	if len(both.Data) != bytes {
		t.Errorf("%d bytes", len(both.Data))
	}
	reader, writer, err := os.Pipe()
	must(t, err)
	go func() {
		defer writer.Close()
		_, err := client.Call[int64](context.Background(), c, "file_write", writer, make([]byte, bytes))
		if err != nil {
			t.Error(err)
		}
	}()
	if got := readAll(t, reader); len(got) != bytes {
		t.Errorf("%d bytes", len(got))
	}
}

// Thousands of calls of all kinds, and of all ways to end, leave no descriptor open
// on either side.
func TestNoFilesLeft(t *testing.T) {
	c := fileClient(t)
	open := client.Func0[int64](c, "descriptors_open")
	_, err := open(t.Context())
	must(t, err)
	file := fileWith(t, "x")
	must(t, c.Call(t.Context(), "file_read", nil, file)) // what is made once is made now
	there, err := open(t.Context())
	must(t, err)
	here := openDescriptors(t)
	var all sync.WaitGroup
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 300 {
				callWithFiles(t, c, file)
			}
		}()
	}
	all.Wait()
	eventually(t, func() bool {
		now, err := open(t.Context())
		return err == nil && now <= there && openDescriptors(t) <= here
	}, func() string { return "descriptors are left open" })
}

func callWithFiles(t *testing.T, c *client.Client, file *os.File) {
	ctx := context.Background()
	if same, err := client.Call[*os.File](ctx, c, "file_same", file); err != nil {
		t.Error(err)
	} else {
		same.Close()
	}
	c.Call(ctx, "file_same", nil, file)                 // the result is dropped
	c.Call(ctx, "file_many", new(string), 5)            // or does not fit
	c.Call(ctx, "connection_greet", nil, file, "")      // refused
	c.Call(ctx, "echo", nil, file)                      // by a function without files
	c.Call(ctx, "file_join", nil, []any{file, file, 7}) // after some were taken
	c.Call(ctx, "no such function", nil, file)
	c.Call(ctx, "file_many", nil, wire.FileDescriptorsPerFrameMax+1)
	c.CallMessagePack(ctx, "file_pipe", []byte{0x90}, nil)
	late, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	c.Call(late, "file_hold", nil, file, 10)
}
