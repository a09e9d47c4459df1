package faults_test

import (
	"sync"
	"time"
)

const (
	witnessTick   = 2 * time.Millisecond
	witnessMemory = time.Second
)

// A witness sees how late this machine wakes processes: with more of them than
// processors, a call can come back late without any fault of the library's.
// What it saw is subtracted from the lateness of calls of the same second.
type witness struct {
	mu    sync.Mutex
	worst time.Duration // of the last second
	at    time.Time
	stop  chan struct{}
}

func newWitness() *witness {
	w := &witness{stop: make(chan struct{})}
	go w.watch()
	return w
}

func (w *witness) watch() {
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

func (w *witness) note(late time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if late > w.worst || time.Since(w.at) > witnessMemory {
		w.worst, w.at = late, time.Now()
	}
}

// lateness returns the worst of the last second.
func (w *witness) lateness() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.worst
}
