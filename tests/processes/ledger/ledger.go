// Package ledger holds what callers say of their calls against a count of executions that
// another process keeps. It is for callers such as tests/faults/callers/ledger.c.
package ledger

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/status"
)

const keyBytes = 8

// A Ledger counts executions by key. This process reads what functions wrote
// to a pipe, so the count survives the death of whoever wrote.
type Ledger struct {
	// Executed has the executions by key, and Strange the keys that nobody can have. Both may be
	// read after Close.
	Executed []uint8
	Strange  []uint64

	noted func(key uint64)
	pipe  *os.File
	done  chan struct{}
}

// Open makes a pipe and reads it. noted, if it is not nil, is called for each execution.
func Open(t *testing.T, path string, noted func(key uint64)) *Ledger {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	// Opened for both, so that it never ends when servers come and go.
	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	l := &Ledger{noted: noted, pipe: pipe, done: make(chan struct{})}
	go l.read()
	return l
}

const (
	// finalKey is written by the test itself when all others have ended.
	finalKey = ^uint64(0)
	keysMax  = 1 << 30
)

func (l *Ledger) read() {
	defer close(l.done)
	buffered := bufio.NewReaderSize(l.pipe, 64<<10)
	var entry [keyBytes]byte
	for {
		if _, err := io.ReadFull(buffered, entry[:]); err != nil {
			return
		}
		switch key := binary.LittleEndian.Uint64(entry[:]); {
		case key == finalKey:
			return
		case key >= keysMax:
			l.Strange = append(l.Strange, key)
		default:
			l.Executed = grown(l.Executed, key)
			l.Executed[key]++
			if l.noted != nil {
				l.noted(key)
			}
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

// Close waits until all that was written has been read.
func (l *Ledger) Close() {
	l.pipe.Write(binary.LittleEndian.AppendUint64(nil, finalKey))
	<-l.done
	l.pipe.Close()
}

// Count returns how often a call was executed. It may be called after Close.
func (l *Ledger) Count(key uint64) int {
	if key < uint64(len(l.Executed)) {
		return int(l.Executed[key])
	}
	return 0
}

// A Report is what a caller said about one call.
type Report struct {
	Begun, Ended bool
	Memory       bool // the call began with shared memory in use
	Code         status.Code
	Outcome      status.Outcome
}

// What callers write for each call, before it and after it.
const (
	recordBytes = 16
	recordBegun = 0
	recordEnded = 1
)

// parseRecord is the other side of say() in the callers.
func parseRecord(b []byte) (key uint64, r Report, took time.Duration, err error) {
	key = binary.LittleEndian.Uint64(b)
	took = time.Duration(binary.LittleEndian.Uint32(b[8:])) * time.Microsecond
	r = Report{Begun: true, Ended: b[12] == recordEnded, Code: status.Code(b[13]), Outcome: status.Outcome(b[14]), Memory: b[15] == 1}
	if key >= keysMax || b[12] > recordEnded || b[15] > 1 {
		err = fmt.Errorf("no record of a caller: %x", b)
	}
	return key, r, took, err
}

// Read reads what a caller says, to its end.
func Read(output io.Reader, said func(key uint64, said Report, took time.Duration)) error {
	record := make([]byte, recordBytes)
	for {
		// A record is written at once; half of one is a mistake.
		if _, err := io.ReadFull(output, record); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		key, report, took, err := parseRecord(record)
		if err != nil {
			return err
		}
		said(key, report, took)
	}
}

// Reports are what all callers of a run said, by key.
type Reports struct {
	ByKey []Report // to be read when nobody says anything any more

	mu sync.Mutex
}

// Note keeps the latest that was said of a call.
func (r *Reports) Note(key uint64, said Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ByKey = grown(r.ByKey, key)
	r.ByKey[key] = said
}

// Describe returns the words for what became of a call.
func (r Report) Describe() string {
	switch {
	case !r.Ended:
		return "caller killed"
	case r.Code == status.OK:
		return "OK"
	}
	return r.Code.String() + ", " + r.Outcome.String()
}

// Possible reports whether that many executions are in keeping with what the
// caller was told.
func (r Report) Possible(executed int) bool {
	switch {
	case !r.Begun:
		return executed == 0
	case !r.Ended:
		return executed <= 1
	case r.Code == status.OK:
		return executed == 1
	}
	switch r.Outcome {
	case status.OutcomeNotExecuted:
		return executed == 0
	case status.OutcomeUnknown:
		return executed <= 1
	case status.OutcomeExecuted, status.OutcomeExecutedResultLost:
		return executed == 1
	}
	return false
}
