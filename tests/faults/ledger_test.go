package faults_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/status"
)

const ledgerKeyBytes = 8

// A ledger counts executions by key. This process reads what functions wrote
// to a pipe, so the count survives the death of whoever wrote.
type ledger struct {
	executed []uint8 // by key
	strange  []uint64
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
	l := &ledger{pipe: pipe, done: make(chan struct{})}
	go l.read()
	return l
}

const (
	// finalKey is written by the test itself when all others have ended.
	finalKey = ^uint64(0)
	keysMax  = 1 << 30
)

func (l *ledger) read() {
	defer close(l.done)
	buffered := bufio.NewReaderSize(l.pipe, 64<<10)
	var entry [ledgerKeyBytes]byte
	for {
		if _, err := io.ReadFull(buffered, entry[:]); err != nil {
			return
		}
		switch key := binary.LittleEndian.Uint64(entry[:]); {
		case key == finalKey:
			return
		case key >= keysMax:
			l.strange = append(l.strange, key)
		default:
			l.executed = grown(l.executed, key)
			l.executed[key]++
		}
	}
}

// grown returns entries with room for the key.
func grown[T any](entries []T, key uint64) []T {
	if key < uint64(len(entries)) {
		return entries
	}
	return append(entries, make([]T, max(int(key)+1, 2*len(entries))-len(entries))...)
}

// close waits until all that was written has been read.
func (l *ledger) close() {
	l.pipe.Write(binary.LittleEndian.AppendUint64(nil, finalKey))
	<-l.done
	l.pipe.Close()
}

func (l *ledger) count(key uint64) int {
	if key < uint64(len(l.executed)) {
		return int(l.executed[key])
	}
	return 0
}

// A report is what a caller said about one call.
type report struct {
	begun, ended bool
	memory       bool // the call began with shared memory in use
	code         status.Code
	outcome      status.Outcome
}

// What callers write for each call, before it and after it.
const (
	recordBytes = 16
	recordBegun = 0
	recordEnded = 1
)

// parseRecord is the other side of say() in callers/ledger.c.
func parseRecord(b []byte) (key uint64, r report, took time.Duration, err error) {
	key = binary.LittleEndian.Uint64(b)
	took = time.Duration(binary.LittleEndian.Uint32(b[8:])) * time.Microsecond
	r = report{begun: true, ended: b[12] == recordEnded, code: status.Code(b[13]), outcome: status.Outcome(b[14]), memory: b[15] == 1}
	if key >= keysMax || b[12] > recordEnded || b[15] > 1 {
		err = fmt.Errorf("no record of a caller: %x", b)
	}
	return key, r, took, err
}

// reports are what all callers of a run said, by key.
type reports struct {
	mu    sync.Mutex
	byKey []report
}

func (r *reports) note(key uint64, said report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byKey = grown(r.byKey, key)
	r.byKey[key] = said
}

func describe(r report) string {
	switch {
	case !r.ended:
		return "caller killed"
	case r.code == status.OK:
		return "OK"
	}
	return r.code.String() + ", " + r.outcome.String()
}

// possible reports whether that many executions are in keeping with what the
// caller was told.
func possible(r report, executed int) bool {
	switch {
	case !r.begun:
		return executed == 0
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
