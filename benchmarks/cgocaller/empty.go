package main

// #cgo CFLAGS: -O2
// #include "functions.h"
import "C"

import (
	"runtime"
	"time"
)

// zero is what times are counted from: a difference reads one clock, not two.
var zero = time.Now()

// laterCall is a C call from a goroutine that has a thread.
func laterCall() (uint64, bool, error) {
	begin := time.Since(zero)
	C.empty()
	return uint64(time.Since(zero) - begin), true, nil
}

// A firstCall is a C call on a thread that has never called before.
type firstCall struct {
	started  time.Duration // just before the statement that starts its goroutine
	entered  time.Duration // just before the call, on that thread
	returned time.Duration
	isFirst  bool // for the thread
}

// makeFirstCall calls from a goroutine on a thread of its own: both end together, so
// that the next has another thread, made for it where none has been left idle.
func makeFirstCall() firstCall {
	returned := make(chan firstCall)
	// The caller keeps its own thread too, or the goroutine would run on it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	started := time.Since(zero)
	go func() {
		runtime.LockOSThread()
		entered := time.Since(zero)
		C.empty()
		returned <- firstCall{started, entered, time.Since(zero), !threadHasCalled()}
	}()
	return <-returned
}

// threadHasCalled reports whether the goroutine's thread has asked before. The thread
// knows it, not its number: the kernel soon gives that to another.
func threadHasCalled() bool { return C.has_called() != 0 }

// firstCallFromStart times a first call with all that it takes to have a thread.
func firstCallFromStart() (uint64, bool, error) {
	first := makeFirstCall()
	return uint64(first.returned - first.started), first.isFirst, nil
}

// firstCallAlone times a first call where the thread is there.
func firstCallAlone() (uint64, bool, error) {
	first := makeFirstCall()
	return uint64(first.returned - first.entered), first.isFirst, nil
}
