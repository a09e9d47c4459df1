package client_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/spin"
	"github.com/nearcall/nearcall/status"
)

// withMemory returns a client of a server process that has been given memory.
func withMemory(t testing.TB, process *serverProcess, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(process.address, options...)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	useMemory(t, c)
	return c
}

// useMemory makes the calls after which a server gives memory. It comes with a
// reply or behind it.
func useMemory(t testing.TB, c *client.Client) {
	t.Helper()
	for range 2 * wire.SharedMemoryAfterCalls {
		_, err := c.CallRaw(context.Background(), "echo", []byte("x"), nil)
		must(t, err)
	}
	if c.Transport() != "shared memory" {
		t.Fatalf("the transport is %q", c.Transport())
	}
}

func TestAllSizesThroughMemory(t *testing.T) {
	for name, spin := range map[string]spin.Mode{"auto": spin.Auto, "off": spin.Off, "dedicated": spin.Dedicated} {
		t.Run(name, func(t *testing.T) {
			c := withMemory(t, startServer(t), client.WithSpin(spin))
			prefix := []byte("kept")
			for _, size := range []int{0, 1, 23, 24, 25, 63, 64, 88, 89, 90, 4095, 4096, 16<<10 - 33, 16 << 10, 64 << 10, 1 << 20, 2<<20 - 64, 2 << 20, 3 << 20, wire.FrameBytesMax - 4096} {
				data := make([]byte, size)
				for i := range data {
					data[i] = byte(i*7 + size)
				}
				for range 20 {
					got, err := c.CallRaw(context.Background(), "echo", data, prefix)
					must(t, err)
					if !bytes.Equal(got, append(prefix, data...)) {
						t.Fatalf("%d bytes came back as %d others", size, len(got))
					}
				}
			}
		})
	}
}

func TestManyGoroutinesShareMemory(t *testing.T) {
	seed := uint64(time.Now().UnixNano()) & 0xFFFFFF
	t.Logf("seed %d", seed)
	c := withMemory(t, startServer(t))
	var callers sync.WaitGroup
	for number := range uint64(64) {
		source := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(number)})
		random := rand.New(source)
		callers.Go(func() {
			for range 300 {
				data := make([]byte, random.IntN(200)*random.IntN(200))
				_, _ = source.Read(data)
				got, err := c.CallRaw(context.Background(), "echo", data, nil)
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("%d bytes came back as %d, %v", len(data), len(got), err)
					return
				}
			}
		})
	}
	callers.Wait()
}

// More calls than there are marks wait for their turn.
func TestMoreCallsThanMarks(t *testing.T) {
	c := withMemory(t, startServer(t))
	var callers sync.WaitGroup
	for range wire.SharedMemoryMarks + 100 {
		callers.Go(func() {
			if err := c.Call(context.Background(), "sleep", nil, 20); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
}

// Callers of any kind come and go, and some give up.
func TestRoleUnderStressThroughMemory(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	process := startServer(t)
	for _, spin := range []spin.Mode{spin.Auto, spin.Off} {
		c := withMemory(t, process, client.WithSpin(spin))
		var callers sync.WaitGroup
		for number := range uint64(6) {
			random := rand.New(rand.NewPCG(seed, number))
			callers.Go(func() {
				for end := time.Now().Add(time.Second); time.Now().Before(end); {
					if err := callSomehow(c, random); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		callers.Wait()
	}
}

// A sleeper is woken, whatever the two do between putting and sleeping.
func TestNoWakeIsLost(t *testing.T) {
	c := withMemory(t, startServer(t, "spin=off"), client.WithSpin(spin.Off))
	for range 20000 {
		_, err := c.CallRaw(context.Background(), "echo", []byte("x"), nil)
		must(t, err)
	}
}

// TestWaitingIsCounted: a client tells how often, why and for how long its calls slept.
func TestWaitingIsCounted(t *testing.T) {
	const calls = 100
	c := withMemory(t, startServer(t), client.WithSpin(spin.Off))
	before := c.Statistics().Waiting
	for range calls {
		_, err := c.CallRaw(context.Background(), "echo", []byte("x"), nil)
		must(t, err)
	}
	after := c.Statistics().Waiting
	// Where nobody waits yet when the standby falls asleep, nobody counts it.
	if slept := after.Sleeps["off"] - before.Sleeps["off"]; slept == 0 || slept > calls || after.Asleep <= before.Asleep {
		t.Fatalf("%d calls: %v, after that %v", calls, before, after)
	}
}

func TestMemoryIsOff(t *testing.T) {
	for name, connect := range map[string]func() (*client.Client, error){
		"by the caller's option": func() (*client.Client, error) {
			return client.New(startServer(t).address, client.WithoutSharedMemory())
		},
		"by the caller's address": func() (*client.Client, error) { return client.New(startServer(t).address + "?shm=off") },
		"by the server":           func() (*client.Client, error) { return client.New(startServer(t, "shm=off").address) },
	} {
		t.Run(name, func(t *testing.T) {
			c, err := connect()
			must(t, err)
			defer c.Close()
			for range 3 * wire.SharedMemoryAfterCalls {
				_, err := c.CallRaw(context.Background(), "echo", []byte("x"), nil)
				must(t, err)
			}
			if c.Transport() != "unix socket" {
				t.Fatalf("the transport is %q", c.Transport())
			}
		})
	}
}

// A server that stands still holds up nobody beyond the deadline.
func TestDeadlineWithAStoppedServer(t *testing.T) {
	for name, payload := range map[string][]byte{"in the ring": make([]byte, 10), "large": make([]byte, 3<<20)} {
		t.Run(name, func(t *testing.T) {
			process := startServer(t)
			c := withMemory(t, process)
			process.stop(t)
			for range 5 {
				got := wait(t, begin(shortContext(t), c, "echo", payload))
				if !errors.Is(got.err, status.DeadlineExceeded) {
					t.Fatal(got.err)
				}
				expectOnTime(t, got.took, short, got.late)
			}
			must(t, process.Process.Signal(syscall.SIGCONT))
			got, err := c.CallRaw(context.Background(), "echo", payload, nil)
			must(t, err)
			if len(got) != len(payload) {
				t.Fatalf("%d bytes came back as %d", len(payload), len(got))
			}
		})
	}
}

// What a server that stops has accepted is answered, either way.
func TestDrainThroughMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	process := startServerWith(t, "", "-ledger", path)
	c := withMemory(t, process, client.WithAttempts(1))
	var calls []<-chan error
	for key := range 20 {
		done := make(chan error, 1)
		calls = append(calls, done)
		go func() { done <- c.Call(context.Background(), "ledger_slow", nil, uint64(key), 300) }()
	}
	eventually(t, func() bool { return len(readLedger(t, path)) == len(calls) }, func() string { return "not all calls start" })
	must(t, process.Process.Signal(syscall.SIGTERM))
	for _, done := range calls {
		must(t, <-done)
	}
	_, err := c.CallRaw(context.Background(), "echo", nil, nil)
	expectFailure(t, err, status.Unavailable, status.OutcomeNotExecuted)
}

func TestCloseThroughMemory(t *testing.T) {
	c := withMemory(t, startServer(t))
	var calls []<-chan error
	for range 20 {
		done := make(chan error, 1)
		calls = append(calls, done)
		go func() {
			for {
				if err := c.Call(context.Background(), "sleep", nil, 1); err != nil {
					done <- err
					return
				}
			}
		}()
	}
	must(t, c.Close())
	for _, done := range calls {
		if err := <-done; !errors.Is(err, client.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	}
	expectNoGoroutines(t)
}

// A ledger is written by the server before a function returns, and outlives it.
func readLedger(t *testing.T, path string) map[uint64]int {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	times := map[uint64]int{}
	for ; len(data) >= 8; data = data[8:] {
		times[binary.LittleEndian.Uint64(data)]++
	}
	return times
}

// Whatever the moment at which the server is killed, what callers are told of
// their calls is true.
func TestServerIsKilled(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	told := map[status.Outcome]int{}
	for round := range 30 {
		callers := []int{1, 1, 2, 8}[round%4]
		for outcome, n := range killServer(t, random, callers) {
			told[outcome] += n
		}
	}
	t.Log(told)
}

func killServer(t *testing.T, random *rand.Rand, callers int) map[status.Outcome]int {
	path := filepath.Join(t.TempDir(), "ledger")
	process := startServerWith(t, "", "-ledger", path)
	c := withMemory(t, process, client.WithAttempts(1))
	var mu sync.Mutex
	outcomes := map[uint64]status.Outcome{}
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for key := uint64(caller) << 32; ; key++ {
				outcome := callLedger(c, key)
				mu.Lock()
				outcomes[key] = outcome
				mu.Unlock()
				if outcome != status.OutcomeNone {
					return
				}
			}
		})
	}
	time.Sleep(time.Duration(random.IntN(20000)) * time.Microsecond)
	must(t, process.Process.Kill())
	all.Wait()
	_, _ = process.Process.Wait()
	return compareLedger(t, outcomes, readLedger(t, path))
}

// callLedger returns OutcomeNone for a call that succeeded.
func callLedger(c *client.Client, key uint64) status.Outcome {
	err := c.Call(context.Background(), "ledger", nil, key)
	var failure *status.Error
	if errors.As(err, &failure) {
		return failure.Outcome
	}
	return status.OutcomeNone
}

func compareLedger(t *testing.T, outcomes map[uint64]status.Outcome, times map[uint64]int) map[status.Outcome]int {
	t.Helper()
	told := map[status.Outcome]int{}
	for key, outcome := range outcomes {
		wrong := times[key] > 1
		switch outcome {
		case status.OutcomeNone, status.OutcomeExecutedResultLost:
			wrong = times[key] != 1
		case status.OutcomeNotExecuted:
			wrong = times[key] != 0
		}
		if wrong {
			t.Errorf("call %x: %v, and the function ran %d times", key, outcome, times[key])
		}
		if outcome != status.OutcomeNone {
			told[outcome]++
		}
	}
	return told
}

// childEnvironment names the address for the child process that has no
// descriptors left.
const childEnvironment = "NEARCALL_TEST_ADDRESS"

func TestNoDescriptorsLeft(t *testing.T) {
	if address := os.Getenv(childEnvironment); address != "" {
		callWithoutDescriptors(t, address)
		return
	}
	process := startServer(t)
	child := exec.Command(os.Args[0], "-test.run=^TestNoDescriptorsLeft$", "-test.v")
	child.Env = append(os.Environ(), childEnvironment+"="+process.address)
	out, err := child.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS")) {
		t.Fatalf("%v: %s", err, out)
	}
}

// callWithoutDescriptors lets the process have no more descriptors than it has
// once it is connected.
func callWithoutDescriptors(t *testing.T, address string) {
	var log logLines
	c, err := client.New(address, client.WithLogger(log.logger()))
	must(t, err)
	defer c.Close()
	_, err = c.CallRaw(context.Background(), "echo", nil, nil)
	must(t, err)
	lowest, err := syscall.Dup(0)
	must(t, err)
	must(t, syscall.Close(lowest))
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(lowest), Max: uint64(lowest)}))
	for i := range 100 {
		got, err := c.CallRaw(context.Background(), "echo", fmt.Append(nil, i), nil)
		must(t, err)
		if string(got) != fmt.Sprint(i) {
			t.Fatalf("got %q", got)
		}
	}
	if c.Transport() != "unix socket" {
		t.Errorf("the transport is %q", c.Transport())
	}
	if n := log.count("no shared memory"); n != 1 {
		t.Errorf("%d lines about it in the log, want 1: %s", n, log.String())
	}
}
