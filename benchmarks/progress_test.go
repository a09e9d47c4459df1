package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// timed is progress whose clock is set by the test.
func timed(t *testing.T, total time.Duration) (p *progress, pass func(time.Duration)) {
	t.Helper()
	p = newProgress(discard(t), total)
	now := p.began
	p.now = func() time.Time { return now }
	return p, func(length time.Duration) { now = now.Add(length) }
}

func near(t *testing.T, what string, got, want, by time.Duration) {
	t.Helper()
	if got < want-by || got > want+by {
		t.Errorf("%s: %s are left, wanted about %s", what, got, want)
	}
}

// The first row is little to judge the rest by.
func TestTimeLeftDoesNotSwing(t *testing.T) {
	p, pass := timed(t, 1000*time.Second)
	near(t, "at first", p.left(), 1000*time.Second, time.Second)
	p.begin("group", 500*time.Second)
	pass(4 * time.Second) // four times as slow as planned
	p.add(time.Second)
	near(t, "after a slow row", p.left(), 1050*time.Second, 10*time.Second)
	pass(596 * time.Second)
	p.add(299 * time.Second)
	near(t, "after many", p.left(), 1300*time.Second, 10*time.Second)
}

// A long part tells nothing until it ends.
func TestTimeLeftGoesDownWithinAPart(t *testing.T) {
	p, pass := timed(t, 200*time.Second)
	p.begin("part", 100*time.Second)
	pass(40 * time.Second)
	near(t, "in it", p.left(), 160*time.Second, time.Second)
	pass(100 * time.Second)
	near(t, "when it should have ended", p.left(), 100*time.Second, time.Second)
	p.finish()
	near(t, "when it has", p.left(), 137*time.Second, time.Second)
}

// Where there is no terminal each group is a line, and so is what is said.
func TestProgressInAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	file, err := os.Create(path)
	check(t, err)
	defer file.Close()
	p := newProgress(file, 10*time.Second)
	p.begin("first", 10*time.Second)
	p.row("a")
	p.say("%s failed: %s", "a", "it died")
	p.finish()
	p.end()
	text, err := os.ReadFile(path)
	const want = "first: about 10s; 0s gone, 10s left\nbenchmarks: a failed: it died\ntook 0s, planned were 10s\n"
	if err != nil || string(text) != want {
		t.Errorf("written was %q, %v", text, err)
	}
}

// On a terminal the bar moves on by itself and is gone in the end.
func TestProgressOnATerminal(t *testing.T) {
	ours, theirs := terminal(t)
	p := newProgress(theirs, 10*time.Second)
	if p.bar == nil {
		t.Fatal("there is no bar")
	}
	p.begin("first", 10*time.Second)
	p.row("a")
	p.mu.Lock()
	p.show()
	p.mu.Unlock()
	p.end()
	theirs.Close() // what was written can be read until then, and then there is an error
	shown, err := io.ReadAll(ours)
	if !errors.Is(err, unix.EIO) || !strings.Contains(string(shown), "left; first") {
		t.Errorf("shown was %q, %v", shown, err)
	}
}
