package faults_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/status"
)

const (
	ledgerKeyBytes    = 8
	callTimeoutMs     = 100
	callersAtATime    = 4
	callsPerCaller    = 400
	defaultLedgerCall = 20000
)

// setting returns a number from the environment, for runs larger than CI has
// time for.
func setting(t testing.TB, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	value, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%s is not a number", name, text)
	}
	return value
}

// A report is what a caller said about one call.
type report struct {
	ended   bool
	code    status.Code
	outcome status.Outcome
}

// A ledger counts executions by key. This process reads what functions wrote
// to a pipe, so the count survives the death of whoever wrote.
type ledger struct {
	mu       sync.Mutex
	executed map[uint64]int
	pipe     *os.File
	done     chan struct{}
}

func openLedger(t *testing.T, path string) *ledger {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	// Opened for both, so that it never ends when servers come and go.
	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{executed: make(map[uint64]int), pipe: pipe, done: make(chan struct{})}
	go l.read()
	return l
}

// finalKey is written by the test itself when all others have ended.
const finalKey = ^uint64(0)

func (l *ledger) read() {
	defer close(l.done)
	entry := make([]byte, ledgerKeyBytes)
	for {
		if _, err := io.ReadFull(l.pipe, entry); err != nil {
			return
		}
		key := binary.LittleEndian.Uint64(entry)
		if key == finalKey {
			return
		}
		l.mu.Lock()
		l.executed[key]++
		l.mu.Unlock()
	}
}

func (l *ledger) close() {
	l.pipe.Write(binary.LittleEndian.AppendUint64(nil, finalKey))
	<-l.done
	l.pipe.Close()
}

// TestOutcomesAreTrue calls while servers and callers are killed and servers
// are stopped at random, and then holds every outcome that was reported
// against a count of executions kept by a third process.
func TestOutcomesAreTrue(t *testing.T) {
	for name, caller := range map[string]string{"C": built.ledger, "Go": built.caller} {
		t.Run(name, func(t *testing.T) { outcomesAreTrue(t, caller) })
	}
}

func outcomesAreTrue(t *testing.T, caller string) {
	seed := uint64(setting(t, "NEARCALL_SEED", int(time.Now().UnixNano()&0xFFFFFF)))
	t.Logf("seed %d (NEARCALL_SEED repeats it)", seed)
	directory := t.TempDir()
	path, pipe := filepath.Join(directory, "s"), filepath.Join(directory, "ledger")
	run := &faultRun{
		t: t, caller: caller, path: path, ledgerPath: pipe, ledger: openLedger(t, pipe),
		reports: make(map[uint64]report), random: rand.New(rand.NewPCG(seed, 1)),
		wanted: int64(setting(t, "NEARCALL_LEDGER_CALLS", defaultLedgerCall)), witness: newWitness(),
	}
	run.torment()
	close(run.witness.stop)
	run.ledger.close()
	run.check()
}

// A faultRun is one torment of a server and its callers.
type faultRun struct {
	t          *testing.T
	caller     string
	path       string
	ledgerPath string
	ledger     *ledger
	wanted     int64
	ended      atomic.Int64
	nextKey    atomic.Uint64
	faults     int
	late       atomic.Int64
	witness    *witness

	mu      sync.Mutex
	reports map[uint64]report
	random  *rand.Rand
}

func (r *faultRun) number(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.IntN(n)
}

// torment keeps callers calling and does harm until enough calls have ended.
func (r *faultRun) torment() {
	stopServer, serverStopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(serverStopped)
		r.tormentServer(stopServer)
	}()
	var callers sync.WaitGroup
	for range callersAtATime {
		callers.Add(1)
		go func() {
			defer callers.Done()
			for r.ended.Load() < r.wanted {
				r.runCaller()
			}
		}()
	}
	callers.Wait()
	close(stopServer)
	<-serverStopped
}

// tormentServer kills and restarts one server after the other, and stops and
// continues some, now and then for longer than calls wait.
func (r *faultRun) tormentServer(stop <-chan struct{}) {
	for {
		server := startServer(r.t, r.path, "-ledger", r.ledgerPath)
		if r.number(3) == 0 {
			r.pause(stop, 10)
			server.Process.Signal(syscall.SIGSTOP)
			r.pause(stop, 2*callTimeoutMs)
			server.Process.Signal(syscall.SIGCONT)
			r.faults++
		}
		more := r.pause(stop, 20)
		server.kill()
		if !more {
			return
		}
		r.faults++
	}
}

// pause waits up to most milliseconds; it reports false when stop was closed.
func (r *faultRun) pause(stop <-chan struct{}, most int) bool {
	select {
	case <-stop:
		return false
	case <-time.After(time.Duration(r.number(most*1000)) * time.Microsecond):
		return true
	}
}

// runCaller runs one caller, which may be killed in the middle of a call.
func (r *faultRun) runCaller() {
	first := r.nextKey.Add(callsPerCaller) - callsPerCaller
	p := start(r.t, r.caller, "unix:"+r.path, strconv.FormatUint(first, 10), strconv.Itoa(callsPerCaller), strconv.Itoa(callTimeoutMs))
	if r.number(3) == 0 {
		delay := time.Duration(r.number(40_000)) * time.Microsecond
		killer := time.AfterFunc(delay, func() { p.Process.Signal(syscall.SIGKILL) })
		defer killer.Stop()
	}
	for p.lines.Scan() {
		r.note(p.lines.Text())
	}
	p.Wait()
}

func (r *faultRun) note(line string) {
	var key uint64
	var code, outcome, tookUs int
	r.mu.Lock()
	defer r.mu.Unlock()
	if n, _ := fmt.Sscanf(line, "b %d", &key); n == 1 {
		r.reports[key] = report{}
		return
	}
	if n, _ := fmt.Sscanf(line, "e %d %d %d %d", &key, &code, &outcome, &tookUs); n != 4 {
		return // cut off by a kill
	}
	r.reports[key] = report{ended: true, code: status.Code(code), outcome: status.Outcome(outcome)}
	r.ended.Add(1)
	late := time.Duration(tookUs)*time.Microsecond - (callTimeoutMs+50)*time.Millisecond
	if late > r.witness.lateness() {
		r.late.Add(1)
		r.t.Logf("late: call %d took %d us: %v, %v", key, tookUs, status.Code(code), status.Outcome(outcome))
	}
}

// check holds every report against the ledger.
func (r *faultRun) check() {
	counts := make(map[string]int)
	wrong := 0
	for key, reported := range r.reports {
		executed := r.ledger.executed[key]
		counts[describe(reported)]++
		if !possible(reported, executed) {
			wrong++
			r.t.Errorf("call %d: %s, and the ledger has %d executions", key, describe(reported), executed)
		}
	}
	for key, executed := range r.ledger.executed {
		if _, known := r.reports[key]; !known {
			r.t.Errorf("key %d was executed %d times and never called", key, executed)
		}
	}
	r.t.Logf("%d calls, %d faults, %d wrong outcomes, %d calls later than their deadline + 50 ms and what the machine adds; %v",
		len(r.reports), r.faults, wrong, r.late.Load(), counts)
	if r.faults == 0 || counts["OK"] == 0 {
		r.t.Error("nothing was tested: no faults, or no calls that succeeded")
	}
	if late := r.late.Load(); late > 0 {
		r.t.Errorf("%d calls came back later than their deadline + 50 ms", late)
	}
}

func describe(r report) string {
	switch {
	case !r.ended:
		return "caller killed"
	case r.code == status.OK:
		return "OK"
	}
	return r.outcome.String()
}

// possible reports whether that many executions are in keeping with what the
// caller was told.
func possible(r report, executed int) bool {
	switch {
	case !r.ended:
		return executed <= 1
	case r.code == status.OK:
		return executed == 1
	}
	switch r.outcome {
	case status.OutcomeNotExecuted:
		return executed == 0
	case status.OutcomeUnknown:
		return executed <= 1
	case status.OutcomeExecuted, status.OutcomeExecutedResultLost:
		return executed == 1
	}
	return false
}
