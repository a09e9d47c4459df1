// Package peers_test checks that every peer does the work it is measured by.
package peers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/peerlist"
	"github.com/nearcall/nearcall/benchmarks/process"
)

// What callers send, and how many there are at the same time.
var loads = []struct{ size, callers int }{
	{64, 1}, {64, 16}, {64, 64}, {4 << 10, 16}, {64 << 10, 1}, {64 << 10, 16}, {1 << 20, 1}, {1 << 20, 16},
}

// callTimeout is far more than callers take here.
const callTimeout = time.Minute

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
			runtime.LockOSThread() // what a thread has started ends with it
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
	server := start(t, filepath.Join(folder, peer.Server), "serve", "unix:"+filepath.Join(sockets, "socket"))
	for _, load := range loads {
		if peer.BytesAtOnceMax > 0 && load.size*load.callers > peer.BytesAtOnceMax {
			continue
		}
		processes, each := 1, load.callers
		if peer.Processes() {
			processes, each = load.callers, 1
		}
		if err := verify(program, server.Said, load.size, processes, each); err != nil {
			t.Errorf("%d bytes, %d callers: %v", load.size, load.callers, err)
		}
	}
	testCaller(t, program, server.Said)
	if peer.Name == "nats" { // whose program is a floor as well, with the broker apart
		apart := start(t, program, "serve", "unix:"+filepath.Join(sockets, "apart"))
		testCaller(t, program, apart.Said)
	}
	if peer.Hosts {
		testCaller(t, program, "start:"+filepath.Join(sockets, "started"))
	}
	if err := server.End(); err != nil {
		t.Error(err)
	}
}

func testDescription(t *testing.T, program string) {
	var told struct{ Version, Language, Connections, Configuration, Documentation string }
	text, err := process.Output(nil, "timeout", "60", program, "describe")
	if err == nil {
		err = json.Unmarshal([]byte(text), &told)
	}
	if err != nil || told.Version == "" || told.Language == "" || told.Connections == "" || told.Configuration == "" ||
		!strings.HasPrefix(told.Documentation, "https://") {
		t.Errorf("describe: %s, %v", text, err)
	}
}

// verify lets callers call at the same time, each with bytes of its own that have to
// come back.
func verify(program, address string, size, processes, each int) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	all, said := make([]*exec.Cmd, processes), make([]strings.Builder, processes)
	for i := range all {
		all[i] = exec.CommandContext(ctx, program, "verify", address, strconv.Itoa(size), strconv.Itoa(each))
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
	caller := start(t, program, "call", address, "64", "1")
	if _, err := fmt.Fprintln(caller.In, "run 20 0 0"); err != nil {
		t.Fatal(err)
	}
	if err := caller.SetReadDeadline(time.Now().Add(callTimeout)); err != nil {
		t.Fatal(err)
	}
	caller.In.Close()
	report, err := io.ReadAll(caller.Out)
	if err != nil || len(report) == 0 || len(report)%8 != 0 {
		t.Errorf("a report of %d bytes: %v%s", len(report), err, caller.Complaints())
	}
	select {
	case <-caller.Ended():
	case <-time.After(callTimeout):
		t.Fatal("the caller does not end")
	}
	if code := caller.ExitCode(); code != 0 {
		t.Errorf("the caller ended with %d%s", code, caller.Complaints())
	}
}

// start starts a program that ends with the test.
func start(t *testing.T, command ...string) *process.Process {
	t.Helper()
	p, err := process.Start(command...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

// What ./generate has made is of these sources, and nobody has touched it.
func TestGeneratedCodeIsFresh(t *testing.T) {
	if output, err := exec.Command("sha256sum", "--check", "--quiet", "generated.sha256").CombinedOutput(); err != nil {
		t.Errorf("run benchmarks/peers/generate: %v\n%s", err, output)
	}
}
