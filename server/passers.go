package server

import (
	"slices"
	"sync"
	"time"
)

const (
	// passersIdleMax is how many goroutines wait for forwarded calls, and passerIdle how long one
	// waits. Further ones end with their call.
	passersIdleMax = 256
	passerIdle     = time.Second
)

// passers are goroutines that pass calls on, one after the other. A forwarded call needs a deep stack,
// because a whole client lies below it, and making a stack grow takes as long as a quarter of the call.
// Ordinary functions have goroutines of their own, which they may end.
type passers struct {
	mu   sync.Mutex
	idle []*passer // the one that has waited least at the end
}

// A passer is a goroutine that waits for a call.
type passer struct{ next chan waitingCall }

// A waitingCall is a call that runs in a goroutine of its own.
type waitingCall interface{ runApart() }

// run runs a call in a goroutine that waits, or in a new one.
func (p *passers) run(e waitingCall) {
	p.mu.Lock()
	last := len(p.idle) - 1
	if last < 0 {
		p.mu.Unlock()
		go p.work(e)
		return
	}
	chosen := p.idle[last]
	p.idle = p.idle[:last]
	p.mu.Unlock()
	chosen.next <- e
}

// work runs calls until there are none for a while. It ends early if the function that passes calls on
// ends the goroutine.
func (p *passers) work(e waitingCall) {
	self := &passer{next: make(chan waitingCall, 1)}
	timer := time.NewTimer(passerIdle)
	defer timer.Stop()
	for {
		e.runApart()
		if !p.enter(self) {
			return
		}
		e = nil // nobody needs it while there is no other
		timer.Reset(passerIdle)
		select {
		case e = <-self.next:
		case <-timer.C:
			if p.leave(self) {
				return
			}
			e = <-self.next // it was chosen just now
		}
	}
}

// enter makes a passer one that waits, unless enough do.
func (p *passers) enter(self *passer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) >= passersIdleMax {
		return false
	}
	p.idle = append(p.idle, self)
	return true
}

// leave takes a passer out of those that wait. It returns false if it was chosen for a call.
func (p *passers) leave(self *passer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.idle, self)
	if at < 0 {
		return false
	}
	p.idle = slices.Delete(p.idle, at, at+1)
	return true
}
