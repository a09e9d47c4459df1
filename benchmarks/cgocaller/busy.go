package main

import (
	"sync"
	"sync/atomic"
)

// A load is goroutines that compute, each of which keeps a processor of the scheduler
// busy.
type load struct {
	running atomic.Int64
	done    atomic.Bool
	all     sync.WaitGroup
}

// spin returns a load when every one of its goroutines runs: a goroutine that
// was only started lies in the queue of the processor that started it.
func spin(count int) *load {
	l := &load{}
	var begun sync.WaitGroup
	begun.Add(count)
	for range count {
		l.all.Go(func() {
			l.running.Add(1)
			begun.Done()
			for !l.done.Load() {
			}
			l.running.Add(-1)
		})
	}
	begun.Wait()
	return l
}

// stop returns when the processors are free again.
func (l *load) stop() {
	l.done.Store(true)
	l.all.Wait()
}
