package services

// Workers bounds how many requests a gateway works on at the same time. It is safe for several
// goroutines.
type Workers struct{ places chan struct{} }

// NewWorkers makes a bound of most requests.
func NewWorkers(most int) *Workers { return &Workers{places: make(chan struct{}, most)} }

// take reports whether there was a place. It never waits, because the goroutine that delivers the
// requests of an endpoint must not.
func (w *Workers) take() bool {
	select {
	case w.places <- struct{}{}:
		return true
	default:
		return false
	}
}

func (w *Workers) give() { <-w.places }

// Busy returns how many requests are worked on now, and Most how many may be.
func (w *Workers) Busy() int { return len(w.places) }

// Most returns how many requests are worked on at most.
func (w *Workers) Most() int { return cap(w.places) }
