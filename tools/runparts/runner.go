package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A runner makes parts. What it says comes in whole lines, whichever lane says it.
type runner struct {
	name   string
	folder string // where the logs are kept
	make   string
	lanes  int
	bound  time.Duration

	environment []string // what parts are told beside their own

	mu      sync.Mutex
	output  io.Writer
	results []result
}

// run makes all parts and reports whether all have passed.
func (r *runner) run(ctx context.Context, first, beside, alone []string) (passed bool, err error) {
	if err := os.MkdirAll(r.folder, 0o755); err != nil {
		return false, err
	}
	if err := os.RemoveAll(r.failedFile()); err != nil {
		return false, err
	}
	began := time.Now()
	for _, part := range first {
		if !r.part(ctx, part) {
			return false, r.summarize(ctx, time.Since(began))
		}
	}
	if len(first) > 0 {
		r.environment = []string{"NEARCALL_BUILT=1"}
	}
	r.inLanes(ctx, r.lanes, beside)
	r.inLanes(ctx, 1, alone)
	err = r.summarize(ctx, time.Since(began))
	return len(r.failed()) == 0 && ctx.Err() == nil, err
}

// inLanes makes parts in their order, so many at a time.
func (r *runner) inLanes(ctx context.Context, lanes int, parts []string) {
	next := make(chan string)
	var running sync.WaitGroup
	for range lanes {
		running.Go(func() {
			for part := range next {
				r.part(ctx, part)
			}
		})
	}
	for _, part := range parts {
		next <- part
	}
	close(next)
	running.Wait()
}

// part makes one part, unless all is to end, and reports whether it has passed.
func (r *runner) part(ctx context.Context, name string) bool {
	if ctx.Err() != nil {
		return false
	}
	r.say("==> %s\n", name)
	got := r.makePart(ctx, name)
	r.mu.Lock()
	r.results = append(r.results, got)
	r.mu.Unlock()
	if got.passed() {
		r.say("    %s\n", got)
		return true
	}
	text, err := os.ReadFile(r.log(name))
	if err != nil {
		text = []byte(err.Error())
	}
	r.say("    %s\n%s\n    that was %s\n", got, strings.TrimRight(string(text), "\n"), name)
	return false
}

func (r *runner) say(format string, values ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.output, format, values...)
}

func (r *runner) log(part string) string { return filepath.Join(r.folder, part+".log") }

func (r *runner) failedFile() string { return filepath.Join(r.folder, r.name+".failed") }

func (r *runner) failed() (parts []string) {
	for _, got := range r.results {
		if !got.passed() {
			parts = append(parts, got.part)
		}
	}
	return parts
}

// summarize prints the table, and what tells most of each failure.
func (r *runner) summarize(ctx context.Context, took time.Duration) error {
	r.say("==> %s: summary\n", r.name)
	for _, got := range r.results {
		r.say("    %s\n", got)
	}
	failed := r.failed()
	if ctx.Err() != nil {
		r.say("%s: ended by a signal after %s\n", r.name, seconds(took))
		return nil
	}
	if len(failed) == 0 {
		r.say("%s: all %d parts passed in %s\n", r.name, len(r.results), seconds(took))
		return nil
	}
	var excerpts strings.Builder
	for _, part := range failed {
		text, err := os.ReadFile(r.log(part))
		if err != nil {
			return err
		}
		excerpts.WriteString(excerpt(r.name, part, string(text)))
	}
	if err := os.WriteFile(r.failedFile(), []byte(excerpts.String()), 0o644); err != nil {
		return err
	}
	r.say("%s%s: FAILED in %s: %s (run `make %s` alone to see it again)\n",
		&excerpts, r.name, seconds(took), strings.Join(failed, " "), failed[0])
	return nil
}
