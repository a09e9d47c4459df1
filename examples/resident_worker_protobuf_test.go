package examples_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The command of these tests, which print their arguments.
const printing = `case $1 in fail) exit 255;; latin1) printf '\344'; exit;; esac; printf '<%s>' "$@"`

// Requests and responses as protobuf's own library for Python (7.36) writes messages of
// worker_protocol.proto, each behind its length.
var protobufVectors = []struct{ name, request, response string }{
	{"nothing at all", "00", "0412023c3e"},
	{
		"arguments, inputs and verbosity",
		"380a0468746d6c0a0f6e6f7465732f656e67696e652e6d6412180a0f6e6f7465732f656e67696e652e6d64120500ff61626312030a0178280a",
		"1912173c68746d6c3e3c6e6f7465732f656e67696e652e6d643e",
	},
	{"an id", "070a036120621807", "0912053c6120623e1807"},
	{"an empty argument", "080a0018ffffffff07", "0a12023c3e18ffffffff07"},
	{"a negative id", "0e0a016118feffffffffffffffff01", "1012033c613e18feffffffffffffffff01"},
	{"an exit code", "080a046661696c1801", "0508ff011801"},
	{"text beyond ASCII", "0a0a06c3a420e282ac1801", "0c12083cc3a420e282ac3e1801"},
	{"output that is not UTF-8", "0a0a066c6174696e311801", "071203efbfbd1801"},
	{
		"arguments that begin with @",
		"280a034040780a04404040780a14407265706f7369746f72792f2f7061636b6167650a037840401801",
		"2812243c40783e3c4040783e3c407265706f7369746f72792f2f7061636b6167653e3c7840403e1801",
	},
	{
		"a long output",
		"b1020aac02" + strings.Repeat("79", 300) + "1801",
		"b30212ae023c" + strings.Repeat("79", 300) + "3e1801",
	},
	{
		"fields of a later version",
		"250a046c6973740a056e6f74657318ac02390500000000000000450000c03f4811a238027a7a",
		"12120d3c6c6973743e3c6e6f7465733e18ac02",
	},
	{
		"123 bytes, which are a brace, and a line feed",
		"7b0a046c6973740a71" + strings.Repeat("79", 113) + "1805",
		"7d12793c6c6973743e3c" + strings.Repeat("79", 113) + "3e1805",
	},
}

// speak writes to a worker that runs the command, and returns all that it answers.
func speak(t *testing.T, input []byte, command ...string) (answer []byte, said string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	worker := exec.CommandContext(ctx, built(t, "examples/resident/worker"), append(command, "--persistent_worker")...)
	var out, errors bytes.Buffer
	worker.Stdin, worker.Stdout, worker.Stderr = bytes.NewReader(input), &out, &errors
	_ = worker.Run()
	return out.Bytes(), errors.String(), worker.ProcessState.ExitCode()
}

func TestResidentWorkerProtobufVectors(t *testing.T) {
	for _, vector := range protobufVectors {
		t.Run(vector.name, func(t *testing.T) {
			request, err := hex.DecodeString(vector.request)
			if err != nil {
				t.Fatal(err)
			}
			answer, said, code := speak(t, request, "sh", "-c", printing, "sh")
			if got := hex.EncodeToString(answer); got != vector.response || code != 0 {
				t.Errorf("it answers %s, want %s, and ends with %d\n%s", got, vector.response, code, said)
			}
		})
	}
}

// The answer to an empty request comes although nothing follows it.
func TestResidentWorkerProtobufEmptyRequest(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	worker := exec.CommandContext(ctx, built(t, "examples/resident/worker"), "true", "--persistent_worker")
	in, err := worker.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	answer := []byte{0xFF}
	if _, err := in.Write([]byte{0}); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(out, answer); err != nil || answer[0] != 0 {
		t.Errorf("got %x, %v", answer, err)
	}
	in.Close()
	if err := worker.Wait(); err != nil {
		t.Error(err)
	}
}

func TestResidentWorkerProtobufMalformed(t *testing.T) {
	for _, request := range []string{
		"8080",                 // within its length
		"070a0361",             // within its text
		"030a0561",             // a field beyond its end
		"0118",                 // no number
		"020b0c",               // a group
		"ffffffff0f",           // more than a message can have
		"ffffffffffffffffff7f", // no number at all
	} {
		bytes, err := hex.DecodeString(request)
		if err != nil {
			t.Fatal(err)
		}
		answer, said, code := speak(t, bytes, "true")
		if len(answer) != 0 || code != 1 || !strings.Contains(said, "the request cannot be read") {
			t.Errorf("%s: it answers %x, says %q and ends with %d", request, answer, said, code)
		}
	}
}

// Bazel's JSON has nothing between messages, and fields that this worker does not know.
func TestResidentWorkerJSONAsBazelPrintsIt(t *testing.T) {
	answer, said, code := speak(t, []byte(`{"arguments":["@@a"],"inputs":[{"path":"x","digest":"AP8="}],"verbosity":10,"later":{"a":[1]}}`),
		"sh", "-c", printing, "sh")
	if want := `{"exitCode":0,"output":"<@a>","requestId":0,"wasCancelled":false}` + "\n"; string(answer) != want || code != 0 {
		t.Errorf("it answers %q, want %q, and ends with %d\n%s", answer, want, code, said)
	}
	answer, said, code = speak(t, []byte(`{}{"requestId":1,"cancel":true}{"requestId":2}`), "true")
	if bytes.Count(answer, []byte("{")) != 2 || code != 0 {
		t.Errorf("it answers %q and ends with %d\n%s", answer, code, said)
	}
}

// Where a request has a directory of its own, the program is still found.
func TestResidentWorkerSandbox(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "sandbox"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "tool"), []byte("#!/bin/sh\nexec pwd\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"./tool"}, {built(t, "bin/nearcall-run"), "./tool"}, {built(t, "bin/nearcall-run"), "--no-resident", "./tool"}} {
		worker := exec.Command(built(t, "examples/resident/worker"), append(command, "--persistent_worker")...)
		worker.Dir, worker.Env = folder, append(os.Environ(), "NEARCALL_NO_RESIDENT=1")
		worker.Stdin = bytes.NewReader(requestProtobuf(workerRequest{ID: 1, Sandbox: "sandbox"}))
		answer, err := worker.CombinedOutput()
		if want := filepath.Join(folder, "sandbox") + "\n"; err != nil || !strings.Contains(string(answer), want) {
			t.Errorf("%v: got %q, %v", command, answer, err)
		}
	}
}
