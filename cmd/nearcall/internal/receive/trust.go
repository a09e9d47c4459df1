package receive

import (
	"context"
	"sync"
	"time"
)

// How long nothing is taken after a program that did not start: the first time, and at
// most. Each failure doubles it.
const (
	pauseFirst = 100 * time.Millisecond
	pauseMost  = 10 * time.Second
)

// startWindow is how long a program must run, or end well within, to have started.
const startWindow = 250 * time.Millisecond

// Trust is whether the program is known to start. Without it connections are taken one
// at a time, so that at most one is lost for each pause.
type trust struct {
	mu    sync.Mutex
	has   bool
	pause time.Duration // before the next attempt
}

func (t *trust) gain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.has, t.pause = true, 0
}

// fail is for an attempt on its own, and returns the pause that follows.
func (t *trust) fail() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.has, t.pause = false, min(max(2*t.pause, pauseFirst), pauseMost)
	return t.pause
}

// lose is for one of many programs: together they are one failure.
func (t *trust) lose() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.has {
		t.has, t.pause = false, pauseFirst
	}
}

func (t *trust) given() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.has
}

// rest waits for as long as nothing is to be taken, or until the context ends.
func (t *trust) rest(ctx context.Context) {
	t.mu.Lock()
	pause := t.pause
	t.mu.Unlock()
	if pause == 0 {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
