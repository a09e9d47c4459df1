package residentcobra_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const runTimeout = 30 * time.Second

var (
	program  string
	launcher string
)

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	var err error
	if launcher, err = filepath.Abs("../../build/bin/nearcall-run"); err == nil {
		_, err = os.Stat(launcher)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err, "- make build builds it")
		return 1
	}
	directory, err := os.MkdirTemp("", "nc")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(directory)
	program = filepath.Join(directory, "testprogram")
	build := exec.Command("go", "build", "-o", program, "./internal/testprogram")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// eachWay runs a test with the program alone and in each mode of being resident.
// prefix is what stands before its arguments.
func eachWay(t *testing.T, test func(t *testing.T, isResident bool, prefix []string)) {
	t.Run("plain", func(t *testing.T) { test(t, false, []string{program}) })
	for _, mode := range []string{"pool", "serial", "concurrent"} {
		t.Run(mode, func(t *testing.T) {
			directory, err := os.MkdirTemp("", "nc")
			if err != nil {
				t.Fatal(err)
			}
			t.Setenv("XDG_RUNTIME_DIR", directory)
			t.Setenv("TEST_MODE", mode)
			t.Cleanup(func() { leave(t, directory) })
			test(t, true, []string{launcher, program})
		})
	}
}

// leave ends the residents of a test, which go when their program's file changes.
func leave(t *testing.T, directory string) {
	now := time.Now()
	if err := os.Chtimes(program, now, now); err != nil {
		t.Error(err)
	}
	for deadline := now.Add(runTimeout); ; time.Sleep(10 * time.Millisecond) {
		sockets, err := filepath.Glob(filepath.Join(directory, "*", "*.sock"))
		if err != nil {
			t.Error(err)
		}
		if len(sockets) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("%v stays", sockets)
			break
		}
	}
	if err := os.RemoveAll(directory); err != nil {
		t.Error(err)
	}
}

// A result is what a run printed, and its exit code.
type result struct {
	out, err string
	code     int
}

func run(t *testing.T, input string, prefix []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, prefix[0], append(prefix[1:len(prefix):len(prefix)], args...)...)
	var out, failures bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &out, &failures
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Error(err)
	}
	return result{out.String(), failures.String(), command.ProcessState.ExitCode()}
}

func (r result) expect(t *testing.T, code int, out, failures string) {
	t.Helper()
	if r.code != code || r.out != out || !strings.Contains(r.err, failures) {
		t.Errorf("code %d, output %q, errors %q; want %d, %q, %q", r.code, r.out, r.err, code, out, failures)
	}
}

// Flags of one run are not those of the next, nor of another at the same time.
func TestArguments(t *testing.T) {
	eachWay(t, func(t *testing.T, isResident bool, prefix []string) {
		tail := fmt.Sprintf(" resident=%t\n", isResident)
		run(t, "", prefix, "say", "--word=a,b", "c", "").expect(t, 0, `["a" "b"] ["c" ""]`+tail, "")
		run(t, "", prefix, "say").expect(t, 0, `[] []`+tail, "")
		var runs sync.WaitGroup
		for i := range 10 {
			runs.Go(func() {
				word := fmt.Sprint("w", i)
				run(t, "", prefix, "say", "--word", word).expect(t, 0, fmt.Sprintf("[%q] []%s", word, tail), "")
			})
		}
		runs.Wait()
	})
}

func TestStreams(t *testing.T) {
	eachWay(t, func(t *testing.T, _ bool, prefix []string) {
		run(t, "from standard input", prefix, "quote").expect(t, 0, "<from standard input>", "")
	})
}

// What cobra says and which code a program ends with is not changed.
func TestErrors(t *testing.T) {
	eachWay(t, func(t *testing.T, _ bool, prefix []string) {
		run(t, "", prefix, "fail").expect(t, 1, "", "Error: as was asked\n")
		run(t, "", prefix, "none").expect(t, 1, "", "Error: unknown command \"none\" for \"testprogram\"\n")
		if help := run(t, "", prefix); help.code != 0 || !strings.Contains(help.out, "Available Commands") {
			t.Errorf("without arguments: %+v", help)
		}
	})
}

func TestContextEndsWithSignal(t *testing.T) {
	eachWay(t, func(t *testing.T, _ bool, prefix []string) {
		command := exec.Command(prefix[0], append(prefix[1:len(prefix):len(prefix)], "wait")...)
		failures, err := command.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(failures)
		if !lines.Scan() || lines.Text() != "waiting" {
			t.Errorf("it says %q", lines.Text())
		}
		if err := command.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		var rest []string
		for lines.Scan() {
			rest = append(rest, lines.Text())
		}
		err = command.Wait()
		if text := strings.Join(rest, "\n"); command.ProcessState.ExitCode() != 1 || !strings.Contains(text, "Error: nearcall: signal: terminated") {
			t.Errorf("%v, %q", err, text)
		}
	})
}
