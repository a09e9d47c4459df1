package main

import (
	"sync"
	"sync/atomic"
)

// spin keeps processors of the scheduler busy until stop is called, as goroutines do
// that compute.
func spin(count int) (stop func()) {
	var done atomic.Bool
	var spinners sync.WaitGroup
	for range count {
		spinners.Go(func() {
			for !done.Load() {
			}
		})
	}
	return func() {
		done.Store(true)
		spinners.Wait()
	}
}
