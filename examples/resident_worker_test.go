package examples_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
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

// A build is the peer of a worker: it writes requests, and reads responses.
type build struct {
	worker   *exec.Cmd
	protocol spoken
	in       io.WriteCloser
	out      *bufio.Reader
	said     bytes.Buffer
}

// A spoken is a protocol as Bazel speaks it.
type spoken struct {
	request  func(workerRequest) []byte
	response func(*bufio.Reader) (response, error) // io.EOF: there are no more
}

type workerRequest struct {
	Arguments []string `json:"arguments,omitempty"`
	ID        int      `json:"requestId,omitempty"`
	Cancel    bool     `json:"cancel,omitempty"`
	Sandbox   string   `json:"sandboxDir,omitempty"`
}

type response struct {
	ExitCode     int
	Output       string
	RequestID    int
	WasCancelled bool
}

func startBuild(t *testing.T, r *residence, protocol spoken, command ...string) *build {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	t.Cleanup(cancel)
	b := &build{protocol: protocol, worker: r.command(ctx, built(t, "examples/resident/worker"), append(command, "--persistent_worker")...)}
	var err error
	if b.in, err = b.worker.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := b.worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	b.out = bufio.NewReader(out)
	b.worker.Stderr = &b.said
	if err := b.worker.Start(); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *build) send(t *testing.T, request workerRequest) {
	t.Helper()
	if _, err := b.in.Write(b.protocol.request(request)); err != nil {
		t.Fatal(err)
	}
}

func (b *build) receive(t *testing.T) response {
	t.Helper()
	got, err := b.protocol.response(b.out)
	if err != nil {
		t.Fatalf("no response: %v\n%s", err, b.said.String())
	}
	return got
}

// finish ends the input; nothing more may come.
func (b *build) finish(t *testing.T, code int) {
	t.Helper()
	b.in.Close()
	if more, err := b.protocol.response(b.out); err != io.EOF {
		t.Errorf("after the end of the input came %v, %+v", err, more)
	}
	_ = b.worker.Wait()
	if got := b.worker.ProcessState.ExitCode(); got != code {
		t.Errorf("the worker ended with %d, want %d\n%s", got, code, b.said.String())
	}
}

var (
	spokenJSON     = spoken{requestJSON, responseJSON}
	spokenProtobuf = spoken{requestProtobuf, responseProtobuf}
)

func requestJSON(request workerRequest) []byte {
	text, err := json.Marshal(request)
	if err != nil {
		panic(err)
	}
	return text
}

func responseJSON(in *bufio.Reader) (got response, err error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return got, err
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	return got, decoder.Decode(&got)
}

func requestProtobuf(request workerRequest) []byte {
	var message []byte
	text := func(tag byte, value string) {
		message = append(message, tag)
		message = append(binary.AppendUvarint(message, uint64(len(value))), value...)
	}
	for _, argument := range request.Arguments {
		text(0x0A, argument)
	}
	if request.ID != 0 {
		message = binary.AppendUvarint(append(message, 0x18), uint64(request.ID))
	}
	if request.Cancel {
		message = append(message, 0x20, 1)
	}
	if request.Sandbox != "" {
		text(0x32, request.Sandbox)
	}
	return append(binary.AppendUvarint(nil, uint64(len(message))), message...)
}

func responseProtobuf(in *bufio.Reader) (got response, err error) {
	length, err := binary.ReadUvarint(in)
	if err != nil {
		return got, err
	}
	message := make([]byte, length)
	if _, err := io.ReadFull(in, message); err != nil {
		return got, err
	}
	for rest := bytes.NewReader(message); rest.Len() > 0; {
		tag, _ := rest.ReadByte()
		number, err := binary.ReadUvarint(rest)
		if err != nil {
			return got, err
		}
		switch tag {
		case 0x08:
			got.ExitCode = int(number)
		case 0x12:
			text := make([]byte, number)
			if _, err := io.ReadFull(rest, text); err != nil {
				return got, err
			}
			got.Output = string(text)
		case 0x18:
			got.RequestID = int(number)
		case 0x20:
			got.WasCancelled = number != 0
		default:
			return got, fmt.Errorf("a field with the tag %#x", tag)
		}
	}
	return got, nil
}

// inEachProtocol runs a test in Bazel's own protocol, and in the other one.
func inEachProtocol(t *testing.T, test func(t *testing.T, protocol spoken)) {
	t.Run("protobuf", func(t *testing.T) { test(t, spokenProtobuf) })
	t.Run("json", func(t *testing.T) { test(t, spokenJSON) })
}

func TestResidentWorker(t *testing.T) { inEachProtocol(t, testResidentWorker) }

func testResidentWorker(t *testing.T, protocol spoken) {
	b := startBuild(t, newResidence(t), protocol, "page")
	b.send(t, workerRequest{Arguments: []string{"html", "notes/engine.md"}})
	if got := b.receive(t); got.ExitCode != 0 || got.RequestID != 0 || !strings.Contains(got.Output, "<title>The Analytical Engine</title>") {
		t.Errorf("got %+v", got)
	}
	b.send(t, workerRequest{ID: 7, Arguments: []string{"html", "none.md"}})
	if got := b.receive(t); got.ExitCode != 1 || got.RequestID != 7 || !strings.Contains(got.Output, "none.md: no such file") {
		t.Errorf("got %+v", got)
	}
	b.send(t, workerRequest{ID: 8, Arguments: []string{"list"}, Sandbox: "notes"})
	if got := b.receive(t); got.ExitCode != 0 || !strings.Contains(got.Output, "engine.md") {
		t.Errorf("in the sandbox's folder: %+v", got)
	}
	b.finish(t, 0)
}

// Each of many requests at a time has one response, the right one.
func TestResidentWorkerMultiplex(t *testing.T) { inEachProtocol(t, testResidentWorkerMultiplex) }

func testResidentWorkerMultiplex(t *testing.T, protocol spoken) {
	const requests = 30
	b := startBuild(t, newResidence(t), protocol, "page")
	folder := t.TempDir()
	for id := 1; id <= requests; id++ {
		page := filepath.Join(folder, fmt.Sprint(id, ".md"))
		if err := os.WriteFile(page, fmt.Appendf(nil, "# Page %d", id), 0o600); err != nil {
			t.Fatal(err)
		}
		b.send(t, workerRequest{ID: id, Arguments: []string{"html", page}})
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
func TestResidentWorkerCancel(t *testing.T) { inEachProtocol(t, testResidentWorkerCancel) }

func testResidentWorkerCancel(t *testing.T, protocol spoken) {
	b := startBuild(t, newResidence(t), protocol, "timesheet")
	b.send(t, workerRequest{ID: 1, Arguments: []string{"hours.csv"}})
	b.receive(t)
	b.send(t, workerRequest{ID: 1, Cancel: true})
	b.send(t, workerRequest{ID: 2, Cancel: true})
	pipe := waitingFile(t)
	b.send(t, workerRequest{ID: 3, Arguments: []string{pipe.path}})
	pipe.await(t)
	b.send(t, workerRequest{ID: 3, Arguments: []string{"hours.csv"}})
	if got := b.receive(t); got.RequestID != 3 || got.ExitCode != 2 || got.WasCancelled || !strings.Contains(got.Output, "runs already") {
		t.Errorf("the same id twice: %+v", got)
	}
	b.send(t, workerRequest{ID: 3, Cancel: true})
	if got := b.receive(t); got.RequestID != 3 || !got.WasCancelled {
		t.Errorf("cancelled: %+v", got)
	}
	pipe.awaitEnd(t)
	b.send(t, workerRequest{ID: 3, Arguments: []string{"hours.csv"}})
	if got := b.receive(t); got.ExitCode != 0 || got.WasCancelled {
		t.Errorf("the same id later: %+v", got)
	}
	b.finish(t, 0)
}

// A worker that is told to end ends what it runs.
func TestResidentWorkerEnds(t *testing.T) {
	b := startBuild(t, newResidence(t), spokenProtobuf, "timesheet")
	pipe := waitingFile(t)
	b.send(t, workerRequest{ID: 1, Arguments: []string{pipe.path}})
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
	for _, request := range []string{`{"requestId": "one"}`, `{"requestId": 1`, `{`} {
		_, said, code := speak(t, []byte(request), "true")
		if code != 1 || !strings.Contains(said, "the request cannot be read") {
			t.Errorf("%s: it ends with %d and says %q", request, code, said)
		}
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

// Files of arguments are read as Bazel reads them before it sends a request.
func TestResidentWorkerFilesOfArguments(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"empty":   "",
		"plain":   "a b\n\nc",
		"windows": "a\r\nb\rc\r\n",
		"nested":  "1\n@plain\n@@2\n@repository//package:target\n--flagfile=plain\n",
		"itself":  "@itself\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for argument, want := range map[string]string{
		"@empty":                    "<>", // printf without arguments
		"@plain":                    "<a b><><c>",
		"@windows":                  "<a><b><c>",
		"@nested":                   "<1><a b><><c><@2><@repository//package:target><--flagfile=plain>",
		"@@plain":                   "<@plain>",
		"@repository//package:name": "<@repository//package:name>",
		"@itself":                   "worker: @itself: files of arguments name each other more than 64 deep; does one name itself?\n",
	} {
		worker := exec.Command(built(t, "examples/resident/worker"), "sh", "-c", `printf '<%s>' "$@"`, "sh", argument)
		worker.Dir = folder
		if got, err := worker.CombinedOutput(); string(got) != want || (err != nil) != (argument == "@itself") {
			t.Errorf("%s: got %q and %v, want %q", argument, got, err, want)
		}
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
