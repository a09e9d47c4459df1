package processes

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const stopTimeout = 10 * time.Second

// Stop stops the process where it is, and returns when it stands still. The signal goes to
// its threads as well: the kernel gives that for the process to a single one, first of all to
// the main one, and nobody takes it while that closes what somebody else holds. Continue takes
// back what is left of it.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	if err := p.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	WaitFor(t, "the process to stop", stopTimeout, func() bool {
		moving := p.movingThreads(t)
		for _, thread := range moving {
			if err := unix.Tgkill(p.Process.Pid, thread, unix.SIGSTOP); err != nil && !errors.Is(err, unix.ESRCH) {
				t.Fatal(err)
			}
		}
		return len(moving) == 0
	})
}

// Continue lets a stopped process go on.
func (p *Process) Continue() { p.Process.Signal(unix.SIGCONT) }

// movingThreads are those that are not stopped, nor will be before they are back from the
// kernel, as one is that closes what somebody else holds.
func (p *Process) movingThreads(t testing.TB) (moving []int) {
	t.Helper()
	threads, err := filepath.Glob(p.file("task/*"))
	if err != nil || len(threads) == 0 {
		t.Fatalf("the threads of the process: %v, %v", threads, err)
	}
	for _, thread := range threads {
		text, err := os.ReadFile(filepath.Join(thread, "stat"))
		if err != nil {
			continue // it has ended
		}
		state := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))[0]
		if strings.Contains("TDXZ", state) {
			continue
		}
		number, err := strconv.Atoi(filepath.Base(thread))
		if err != nil {
			t.Fatal(err)
		}
		moving = append(moving, number)
	}
	return moving
}
