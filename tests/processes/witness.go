package processes

import (
	"sync"
	"time"
)

const (
	witnessTick   = 2 * time.Millisecond
	witnessMemory = time.Second
)

// A Witness sees how late this machine wakes processes: with more of them than
// processors, a call can come back late without any fault of the library's.
// What it saw is subtracted from the lateness of calls of the same second. It is
// one process among many, and another may have waited longer: Explains knows.
type Witness struct {
	mu    sync.Mutex
	worst time.Duration // of the last second
	at    time.Time
	stop  chan struct{}
}

// NewWitness starts a witness, which Close ends.
func NewWitness() *Witness {
	w := &Witness{stop: make(chan struct{})}
	go w.watch()
	return w
}

func (w *Witness) watch() {
	for {
		started := time.Now()
		select {
		case <-w.stop:
			return
		case <-time.After(witnessTick):
			w.note(time.Since(started) - witnessTick)
		}
	}
}

func (w *Witness) note(late time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if late > w.worst || time.Since(w.at) > witnessMemory {
		w.worst, w.at = late, time.Now()
	}
}

// Close ends the watching.
func (w *Witness) Close() { close(w.stop) }

// Explains reports whether this machine alone can have made a call so late: its
// caller and its server may each have waited as long as the witness did.
func (w *Witness) Explains(late time.Duration) bool { return late <= 2*w.Lateness() }

// Lateness returns the worst of the last second.
func (w *Witness) Lateness() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.worst
}
