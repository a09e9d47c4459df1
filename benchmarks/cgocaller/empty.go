package main

// #cgo CFLAGS: -O2
// #include "functions.h"
import "C"

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// zero is what times are counted from: a difference reads one clock, not two.
var zero = time.Now()

// laterCall is a C call from a goroutine that has a thread.
func laterCall() (uint64, bool, error) {
	begin := time.Since(zero)
	C.empty()
	return uint64(time.Since(zero) - begin), true, nil
}

// threads are those that have called.
type threads struct{ seen map[int]bool }

func newThreads() *threads { return &threads{map[int]bool{}} }

// firstCall is a C call from a goroutine on a thread of its own: both end together,
// so that the runtime has to make another for the next. A call on a thread that has
// called before does not count.
func (t *threads) firstCall() (uint64, bool, error) {
	type ended struct {
		at     time.Duration
		thread int
	}
	returned := make(chan ended)
	// The caller keeps its own thread too, or the goroutine would run on it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin := time.Since(zero)
	go func() {
		runtime.LockOSThread()
		C.empty()
		returned <- ended{time.Since(zero), unix.Gettid()}
	}()
	end := <-returned
	isNew := !t.seen[end.thread]
	t.seen[end.thread] = true
	return uint64(end.at - begin), isNew, nil
}
