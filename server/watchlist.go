package server

import (
	"sync"
	"time"
)

// A watchList watches the first functions of all connections of a server with one timer.
// Many connections make one call and end, and a timer for each would wake a thread that
// waits for the network, only to make it wait anew. The list may keep a connection that
// has ended for a tick.
type watchList struct {
	// mu protects what follows.
	mu    sync.Mutex
	due   []func()
	tick  time.Duration // with which the timer is armed, 0 if it is not
	timer *time.Timer
}

// add calls a watch when a tick is over, or earlier.
func (w *watchList) add(watch func(), tick time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = append(w.due, watch)
	switch {
	case w.tick > 0 && w.tick <= tick:
		return
	case w.timer == nil:
		w.timer = time.AfterFunc(tick, w.run)
	default:
		w.timer.Reset(tick)
	}
	w.tick = tick
}

func (w *watchList) run() {
	w.mu.Lock()
	due := w.due
	w.due, w.tick = nil, 0
	w.mu.Unlock()
	for _, watch := range due {
		watch()
	}
}
