// Package peers_test checks that every peer does the work it is measured by.
package peers_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

var (
	sizes   = []int{64, 4 << 10, 64 << 10, 1 << 20}
	callers = []int{1, 16}
)

// bytesAtOnceMax is what takes a peer seconds: D-Bus encodes byte by byte.
var bytesAtOnceMax = map[string]int{"dbus": 1 << 20}

// built is where ./build puts the programs, as benchmarks/run has it do.
const built = "../../build/benchmarks/peers"

func TestEachPeerEchoes(t *testing.T) {
	folder, err := filepath.Abs(built)
	if err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command("./build", folder).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, output)
	}
	for _, name := range []string{"netrpc", "ttrpc", "grpc", "connect", "drpc", "thrift", "goplugin", "nats", "dbus", "zeromq", "nng", "python-grpc", "msgpack-rpc"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if reason, err := os.ReadFile(filepath.Join(folder, name+".failed")); err == nil {
				t.Fatalf("it cannot be built: %s", reason)
			}
			testPeer(t, filepath.Join(folder, name), bytesAtOnceMax[name])
		})
	}
}

func testPeer(t *testing.T, program string, bytesMax int) {
	var told struct {
		Version, Configuration, Documentation string
		Processes                             bool
	}
	text, err := exec.Command(program, "describe").Output()
	if err == nil {
		err = json.Unmarshal(text, &told)
	}
	if err != nil || told.Version == "" || told.Configuration == "" || !strings.HasPrefix(told.Documentation, "https://") {
		t.Errorf("describe: %s, %v", text, err)
	}
	// The path of a socket is short, that of a test's folder need not be.
	folder, err := os.MkdirTemp("", "peers-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	server := start(t, program, "serve", "unix:"+filepath.Join(folder, "socket"))
	for _, size := range sizes {
		for _, count := range callers {
			if bytesMax > 0 && size*count > bytesMax {
				continue
			}
			processes, each := 1, count
			if told.Processes {
				processes, each = count, 1
			}
			testCallers(t, program, server.said, size, processes, each)
		}
	}
}

// testCallers starts callers, each of which gets ready by an echo that it compares in
// full, and lets them run at the same time.
func testCallers(t *testing.T, program, address string, size, processes, each int) {
	var all []started
	for range processes {
		all = append(all, start(t, program, "call", address, strconv.Itoa(size), strconv.Itoa(each)))
	}
	for _, caller := range all {
		fmt.Fprintln(caller.in, "run 20 0 0")
	}
	for _, caller := range all {
		head := make([]uint64, 6)
		if err := binary.Read(caller.out, binary.NativeEndian, head); err != nil {
			t.Fatalf("%d bytes, %d callers: no report: %v", size, each, err)
		}
		samples := make([]uint64, head[4])
		if err := binary.Read(caller.out, binary.NativeEndian, samples); err != nil {
			t.Fatalf("%d bytes, %d callers: the report breaks off: %v", size, each, err)
		}
		if head[0] < uint64(each) || head[0] != head[4] {
			t.Errorf("%d bytes, %d callers: %d calls, %d samples", size, each, head[0], head[4])
		}
		caller.in.Close()
		if err := caller.wait(); err != nil {
			t.Errorf("%d bytes, %d callers: %v", size, each, err)
		}
	}
}

// A started process has said that it is ready, and what comes after that.
type started struct {
	in   io.WriteCloser
	out  *bufio.Reader
	said string
	wait func() error
}

func start(t *testing.T, program string, args ...string) started {
	t.Helper()
	command := exec.Command(program, args...)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	waited := false
	s := started{in: in, out: bufio.NewReader(out), wait: func() error { waited = true; return command.Wait() }}
	t.Cleanup(func() {
		if !waited {
			_ = command.Process.Signal(syscall.SIGTERM)
			_ = command.Wait()
		}
	})
	line, err := s.out.ReadString('\n')
	said, ok := strings.CutPrefix(line, "ready")
	if !ok {
		t.Fatalf("%s %s said %q: %v", program, args, line, err)
	}
	s.said = strings.TrimSpace(said)
	return s
}
