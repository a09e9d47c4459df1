package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/nearcall/nearcall/resident"
)

// A state is what a run has of its caller.
type state struct {
	Args     []string `json:"args"`
	Mark     string   `json:"mark"`
	Extra    string   `json:"extra"`
	Names    []string `json:"names"` // of all variables
	Dir      string   `json:"dir"`
	Where    string   `json:"where"` // what the file "where" in the directory says
	Umask    int      `json:"umask"`
	Input    string   `json:"input"`
	Resident int      `json:"resident"` // its process, 0: run plainly
	PID      int      `json:"pid"`
	Version  string   `json:"version"`
	Wrong    string   `json:"wrong"` // where the invocation and the process do not agree
}

// report prints its state and all input; the first argument is the exit code.
func report(_ context.Context, r *run) int {
	input, err := io.ReadAll(r.input())
	if err != nil {
		return r.broken(err.Error())
	}
	return r.tell(string(input))
}

// meet tells its state, waits for the end of the input, and tells it again.
func meet(_ context.Context, r *run) int {
	if code := r.tell(""); code != r.number(0) {
		return code
	}
	input, err := io.ReadAll(r.input())
	if err != nil {
		return r.broken(err.Error())
	}
	return r.tell(string(input))
}

func (r *run) tell(input string) int {
	state := r.state()
	state.Input = input
	text, err := json.Marshal(state)
	if err != nil {
		return r.broken(err.Error())
	}
	if code := r.printf("%s\n", text); code != 0 {
		return code
	}
	fmt.Fprintf(r.Stderr, "mark %s\n", state.Mark)
	return r.number(0)
}

func (r *run) state() state {
	s := state{Args: r.Args, Mark: r.getenv("MARK"), Extra: r.getenv("EXTRA"), Dir: r.Dir, Umask: r.Umask, PID: os.Getpid(), Version: version}
	for _, variable := range r.Env {
		name, _, _ := strings.Cut(variable, "=")
		s.Names = append(s.Names, name)
	}
	slices.Sort(s.Names)
	if r.Resident {
		s.Resident = os.Getpid()
		if r.mode != resident.Concurrent {
			s.Resident = os.Getppid()
		}
	}
	if text, err := os.ReadFile(r.path("where")); err == nil {
		s.Where = string(text)
	}
	if r.own() {
		s.Wrong = r.disagreement()
	}
	return s
}

// disagreement tells what the process has other than the invocation says.
func (r *run) disagreement() string {
	umask := syscall.Umask(0)
	syscall.Umask(umask)
	if umask != r.Umask {
		return fmt.Sprintf("umask %o, and the invocation says %o", umask, r.Umask)
	}
	if !slices.Equal(os.Args, r.Args) {
		return fmt.Sprintf("arguments %q, and the invocation says %q", os.Args, r.Args)
	}
	if os.Getenv("MARK") != r.Getenv("MARK") || len(os.Environ()) != len(r.Env) {
		return fmt.Sprintf("environment %q, and the invocation says %q", os.Environ(), r.Env)
	}
	dir, err := os.Getwd()
	if r.Dir != "" && (err != nil || dir != r.Dir) {
		return fmt.Sprintf("directory %q (%v), and the invocation says %q", dir, err, r.Dir)
	}
	return ""
}

// change changes all that a process has of its own, where it may.
func change(_ context.Context, r *run) int {
	if !r.own() {
		return 0
	}
	syscall.Umask(0o123)
	os.Args = []string{"changed"}
	for _, err := range []error{os.Setenv("EXTRA", "left behind"), os.Unsetenv("MARK"), os.Chdir("/")} {
		if err != nil {
			return r.broken(err.Error())
		}
	}
	return 0
}
