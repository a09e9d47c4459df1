// Package peers_test checks that every peer does the work it is measured by.
package peers_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/peerlist"
)

// What callers send, and how many there are at the same time.
var loads = []struct{ size, callers int }{
	{64, 1}, {64, 16}, {64, 64}, {4 << 10, 16}, {64 << 10, 1}, {64 << 10, 16}, {1 << 20, 1}, {1 << 20, 16},
}

const (
	// programTimeout is far more than any program here runs but for servers, which run as
	// long as there is something to send.
	programTimeout = time.Minute
	// endsBefore is how long before the time of the test binary is over a server is ended
	// that does not answer: long enough to say so.
	endsBefore = 5 * time.Second
)

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
	for _, peer := range peerlist.All() {
		t.Run(peer.Name, func(t *testing.T) {
			t.Parallel()
			for _, program := range []string{peer.Name, peer.Server} {
				if reason, err := os.ReadFile(filepath.Join(folder, program+".failed")); err == nil {
					t.Fatalf("%s cannot be built: %s", program, reason)
				}
			}
			testPeer(t, peer, folder)
		})
	}
}

func testPeer(t *testing.T, peer peerlist.Peer, folder string) {
	program := filepath.Join(folder, peer.Name)
	testDescription(t, program)
	// The path of a socket is short, that of a test's folder need not be.
	sockets, err := os.MkdirTemp("", "peers-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(sockets) })
	server := start(untilTestEnds(t), t, filepath.Join(folder, peer.Server), "serve", "unix:"+filepath.Join(sockets, "socket"))
	for _, load := range loads {
		if peer.BytesAtOnceMax > 0 && load.size*load.callers > peer.BytesAtOnceMax {
			continue
		}
		processes, each := 1, load.callers
		if peer.Processes() {
			processes, each = load.callers, 1
		}
		if err := verify(t, program, server.said, load.size, processes, each); err != nil {
			t.Errorf("%d bytes, %d callers: %v", load.size, load.callers, err)
		}
	}
	testCaller(t, program, server.said)
	if peer.Hosts {
		testCaller(t, program, "start:"+filepath.Join(sockets, "started"))
	}
}

func testDescription(t *testing.T, program string) {
	var told struct{ Version, Language, Connections, Configuration, Documentation string }
	text, err := exec.CommandContext(bounded(t), program, "describe").Output()
	if err == nil {
		err = json.Unmarshal(text, &told)
	}
	if err != nil || told.Version == "" || told.Language == "" || told.Connections == "" || told.Configuration == "" ||
		!strings.HasPrefix(told.Documentation, "https://") {
		t.Errorf("describe: %s, %v", text, err)
	}
}

// verify lets callers call at the same time, each with bytes of its own that have to
// come back.
func verify(t *testing.T, program, address string, size, processes, each int) error {
	all := make([]*exec.Cmd, processes)
	said := make([]bytes.Buffer, processes)
	for i := range all {
		all[i] = exec.CommandContext(bounded(t), program, "verify", address, strconv.Itoa(size), strconv.Itoa(each))
		all[i].Stderr = &said[i]
		if err := all[i].Start(); err != nil {
			return err
		}
	}
	var failures []error
	for i, caller := range all {
		if err := caller.Wait(); err != nil {
			failures = append(failures, fmt.Errorf("%w: %s", err, said[i].String()))
		}
	}
	return errors.Join(failures...)
}

// testCaller lets a caller make a report and end.
func testCaller(t *testing.T, program, address string) {
	caller := start(bounded(t), t, program, "call", address, "64", "1")
	fmt.Fprintln(caller.in, "run 20 0 0")
	caller.in.Close()
	report, err := io.ReadAll(caller.out)
	if err != nil || len(report) == 0 || len(report)%8 != 0 {
		t.Errorf("a report of %d bytes: %v", len(report), err)
	}
	if err := caller.wait(); err != nil {
		t.Errorf("the caller: %v", err)
	}
}

// bounded ends with the test, or when a program takes far too long.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), programTimeout)
	t.Cleanup(cancel)
	return ctx
}

// untilTestEnds ends shortly before the time is over that the test binary has.
func untilTestEnds(t *testing.T) context.Context {
	deadline, limited := t.Deadline()
	if !limited {
		return context.Background()
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline.Add(-endsBefore))
	t.Cleanup(cancel)
	return ctx
}

// A started process has said that it is ready, and what comes after that.
type started struct {
	in   io.WriteCloser
	out  *bufio.Reader
	said string
	wait func() error
}

func start(ctx context.Context, t *testing.T, program string, args ...string) started {
	t.Helper()
	command := exec.CommandContext(ctx, program, args...)
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

// What ./generate has made is of these sources, and nobody has touched it.
func TestGeneratedCodeIsFresh(t *testing.T) {
	if output, err := exec.Command("sha256sum", "--check", "--quiet", "generated.sha256").CombinedOutput(); err != nil {
		t.Errorf("run benchmarks/peers/generate: %v\n%s", err, output)
	}
}
