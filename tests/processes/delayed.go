package processes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Delayed returns how long the process has waited in all for a processor that it could
// have used; of one with several threads, its first. 0 where the kernel does not tell.
func (p *Process) Delayed(t testing.TB) time.Duration {
	t.Helper()
	delay, err := delayOf(p.file("schedstat"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return delay
}

// OwnDelay is Delayed for this process and all of its threads. What happened meanwhile
// is late by no more than that for want of a processor, while what waits for anything
// else has no part in it. A thread that has ended excuses nothing.
func OwnDelay() (delay time.Duration) {
	// The pattern is a good one.
	threads, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, thread := range threads {
		if own, err := delayOf(thread); err == nil {
			delay += own
		}
	}
	return delay
}

func delayOf(statistics string) (time.Duration, error) {
	var ran, waited int64
	text, err := os.ReadFile(statistics)
	if err == nil {
		_, err = fmt.Sscan(string(text), &ran, &waited)
	}
	return time.Duration(waited), err
}
