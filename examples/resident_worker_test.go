package examples_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A build is the peer of a worker: it writes requests, a line each, and reads responses.
type build struct {
	worker    *exec.Cmd
	in        io.WriteCloser
	responses *json.Decoder
	said      bytes.Buffer
}

type response struct {
	ExitCode     int
	Output       string
	RequestID    int
	WasCancelled bool
}

func startBuild(t *testing.T, r *residence, command ...string) *build {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	t.Cleanup(cancel)
	b := &build{worker: r.command(ctx, built(t, "examples/resident/worker"), append(command, "--persistent_worker")...)}
	var err error
	if b.in, err = b.worker.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := b.worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	b.responses = json.NewDecoder(out)
	b.responses.DisallowUnknownFields()
	b.worker.Stderr = &b.said
	if err := b.worker.Start(); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *build) send(t *testing.T, format string, values ...any) {
	t.Helper()
	if _, err := fmt.Fprintf(b.in, format+"\n", values...); err != nil {
		t.Fatal(err)
	}
}

func (b *build) receive(t *testing.T) response {
	t.Helper()
	var got response
	if err := b.responses.Decode(&got); err != nil {
		t.Fatalf("no response: %v\n%s", err, b.said.String())
	}
	return got
}

// finish ends the input; nothing more may come.
func (b *build) finish(t *testing.T, code int) {
	t.Helper()
	b.in.Close()
	var more json.RawMessage
	if err := b.responses.Decode(&more); err != io.EOF {
		t.Errorf("after the end of the input came %v, %s", err, more)
	}
	_ = b.worker.Wait()
	if got := b.worker.ProcessState.ExitCode(); got != code {
		t.Errorf("the worker ended with %d, want %d\n%s", got, code, b.said.String())
	}
}

func TestResidentWorker(t *testing.T) {
	b := startBuild(t, newResidence(t), "page")
	b.send(t, `{"arguments": ["html", "notes/engine.md"], "inputs": [{"path": "notes/engine.md", "digest": "Zm9v"}], "verbosity": 10}`)
	if got := b.receive(t); got.ExitCode != 0 || got.RequestID != 0 || !strings.Contains(got.Output, "<title>The Analytical Engine</title>") {
		t.Errorf("got %+v", got)
	}
	b.send(t, `{"requestId": 7, "arguments": ["html", "none.md"]}`)
	if got := b.receive(t); got.ExitCode != 1 || got.RequestID != 7 || !strings.Contains(got.Output, "none.md: no such file") {
		t.Errorf("got %+v", got)
	}
	b.send(t, `{"requestId": 8, "arguments": ["list"], "sandboxDir": "notes"}`)
	if got := b.receive(t); got.ExitCode != 0 || !strings.Contains(got.Output, "engine.md") {
		t.Errorf("in the sandbox's folder: %+v", got)
	}
	b.finish(t, 0)
}

// Each of many requests at a time has one response, the right one.
func TestResidentWorkerMultiplex(t *testing.T) {
	const requests = 30
	b := startBuild(t, newResidence(t), "page")
	folder := t.TempDir()
	for id := 1; id <= requests; id++ {
		page := filepath.Join(folder, fmt.Sprint(id, ".md"))
		if err := os.WriteFile(page, fmt.Appendf(nil, "# Page %d", id), 0o600); err != nil {
			t.Fatal(err)
		}
		b.send(t, `{"requestId": %d, "arguments": ["html", %q]}`, id, page)
	}
	seen := map[int]bool{}
	for range requests {
		got := b.receive(t)
		if seen[got.RequestID] || got.ExitCode != 0 || got.WasCancelled || !strings.Contains(got.Output, fmt.Sprintf("<h1>Page %d</h1>", got.RequestID)) {
			t.Errorf("got %+v", got)
		}
		seen[got.RequestID] = true
	}
	b.finish(t, 0)
}

// A request that runs is cancelled and answered once; the program has ended then. One
// that was answered, or never sent, is not answered because of a cancellation.
func TestResidentWorkerCancel(t *testing.T) {
	b := startBuild(t, newResidence(t), "timesheet")
	b.send(t, `{"requestId": 1, "arguments": ["hours.csv"]}`)
	b.receive(t)
	b.send(t, `{"requestId": 1, "cancel": true}`)
	b.send(t, `{"requestId": 2, "cancel": true}`)
	pipe := waitingFile(t)
	b.send(t, `{"requestId": 3, "arguments": [%q]}`, pipe.path)
	pipe.await(t)
	b.send(t, `{"requestId": 3, "arguments": ["hours.csv"]}`)
	if got := b.receive(t); got.RequestID != 3 || got.ExitCode != 2 || got.WasCancelled || !strings.Contains(got.Output, "runs already") {
		t.Errorf("the same id twice: %+v", got)
	}
	b.send(t, `{"requestId": 3, "cancel": true}`)
	if got := b.receive(t); got.RequestID != 3 || !got.WasCancelled {
		t.Errorf("cancelled: %+v", got)
	}
	pipe.awaitEnd(t)
	b.send(t, `{"requestId": 3, "arguments": ["hours.csv"]}`)
	if got := b.receive(t); got.ExitCode != 0 || got.WasCancelled {
		t.Errorf("the same id later: %+v", got)
	}
	b.finish(t, 0)
}

// A worker that is told to end ends what it runs.
func TestResidentWorkerEnds(t *testing.T) {
	b := startBuild(t, newResidence(t), "timesheet")
	pipe := waitingFile(t)
	b.send(t, `{"requestId": 1, "arguments": [%q]}`, pipe.path)
	pipe.await(t)
	if err := b.worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := b.receive(t); !got.WasCancelled {
		t.Errorf("got %+v", got)
	}
	pipe.awaitEnd(t)
	b.finish(t, 0)
}

func TestResidentWorkerMalformed(t *testing.T) {
	b := startBuild(t, newResidence(t), "page")
	b.send(t, `{"requestId": "one"}`)
	b.finish(t, 1)
	if !strings.Contains(b.said.String(), "the request cannot be read") {
		t.Errorf("it says %q", b.said.String())
	}
}

// Where a build uses no workers the same command line runs one request.
func TestResidentWorkerOnce(t *testing.T) {
	r := newResidence(t)
	arguments := filepath.Join(t.TempDir(), "arguments")
	if err := os.WriteFile(arguments, []byte("list\nnotes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	worker := built(t, "examples/resident/worker")
	if got := r.run(t, "", worker, "page", "@"+arguments); got.code != 0 || !strings.Contains(got.out, "A compiler") {
		t.Errorf("got %+v", got)
	}
	if got := r.run(t, "", worker, "page", "html", "none.md"); got.code != 1 || !strings.Contains(got.err, "none.md") {
		t.Errorf("got %+v", got)
	}
	if got := r.run(t, "", worker, "page", "@/no/such/file"); got.code != 1 || !strings.Contains(got.err, "/no/such/file") {
		t.Errorf("got %+v", got)
	}
	if got := r.run(t, "", worker); got.code != 2 {
		t.Errorf("got %+v", got)
	}
}

// A pipeFile is one that whoever reads it waits for, because nobody writes it.
type pipeFile struct {
	path   string
	writer *os.File
}

func waitingFile(t *testing.T) *pipeFile {
	t.Helper()
	p := &pipeFile{path: filepath.Join(t.TempDir(), "hours.csv")}
	if err := syscall.Mkfifo(p.path, 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// await returns when somebody reads.
func (p *pipeFile) await(t *testing.T) {
	t.Helper()
	await(t, "the program reads its file", func() bool {
		file, err := os.OpenFile(p.path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		p.writer = file
		return err == nil
	})
	t.Cleanup(func() { p.writer.Close() })
}

// awaitEnd returns when nobody reads any more.
func (p *pipeFile) awaitEnd(t *testing.T) {
	t.Helper()
	await(t, "the program has ended", func() bool {
		_, err := syscall.Write(int(p.writer.Fd()), []byte("x"))
		return err == syscall.EPIPE
	})
}
