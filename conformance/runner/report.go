package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// report counts verdicts and prints a line for each failure.
type report struct {
	mu     sync.Mutex
	out    io.Writer
	asJSON bool
	passed int
	failed int
}

// verdict is one line of -json.
type verdict struct {
	Subject string `json:"subject"`
	Vector  string `json:"vector"`
	Meaning string `json:"meaning"`
	Pass    bool   `json:"pass"`
	Failure string `json:"failure,omitempty"`
	Known   bool   `json:"known,omitempty"`
}

func (r *report) add(subject string, t trial, err error, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := verdict{Subject: subject, Vector: t.name, Meaning: t.Meaning, Pass: err == nil, Known: known}
	if err != nil {
		v.Failure = err.Error()
	}
	if known {
		v.Pass = !v.Pass
		if err == nil {
			v.Failure = "passes although known-failures lists it: remove the entry"
		}
	}
	if v.Pass {
		r.passed++
	} else {
		r.failed++
	}
	r.print(v)
}

func (r *report) print(v verdict) {
	if r.asJSON {
		line, err := json.Marshal(v)
		if err == nil {
			fmt.Fprintln(r.out, string(line))
		}
		return
	}
	if !v.Pass {
		fmt.Fprintf(r.out, "FAIL %s %s: %s\n     %s\n", v.Subject, v.Vector, v.Meaning, v.Failure)
	}
}

func (r *report) note(format string, arguments ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.asJSON {
		fmt.Fprintf(r.out, format+"\n", arguments...)
	}
}

// finish prints the last line. A run in which nothing was tried has failed.
func (r *report) finish() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, "%d passed, %d failed\n", r.passed, r.failed)
	switch {
	case r.failed > 0:
		return errors.New("not conforming")
	case r.passed == 0:
		return errors.New("no vector was tried")
	}
	return nil
}

// readKnownFailures reads names of trials, one a line; # begins a reason.
func readKnownFailures(path string) (map[string]bool, error) {
	known := map[string]bool{}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		name, _, _ := strings.Cut(lines.Text(), "#")
		if name = strings.TrimSpace(name); name != "" {
			known[name] = true
		}
	}
	return known, lines.Err()
}
