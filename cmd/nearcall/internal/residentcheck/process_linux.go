package residentcheck

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// inItsOwnSession keeps a run from the terminal, as a resident's runs are kept from it, and
// makes a group of what it starts.
func inItsOwnSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func killGroup(process int) { _ = syscall.Kill(-process, syscall.SIGKILL) }

// end calls stop, which tells a process of others to end, and waits for its end.
func end(ctx context.Context, process int, stop func() error) {
	descriptor, err := unix.PidfdOpen(process, 0)
	if err != nil {
		return
	}
	defer unix.Close(descriptor)
	if stop() == nil {
		awaitEnd(ctx, descriptor)
	}
}

// killStartedWith kills the processes whose environment had something in it when they were
// started, as the kernel shows it, and waits for their end. It has a descriptor of each, as
// numbers of processes are used again.
func killStartedWith(ctx context.Context, text string) {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		process, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		descriptor, err := unix.PidfdOpen(process, 0)
		if err != nil {
			continue // it has ended
		}
		environment, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		if bytes.Contains(environment, []byte(text)) && unix.PidfdSendSignal(descriptor, unix.SIGKILL, nil, 0) == nil {
			awaitEnd(ctx, descriptor)
		}
		_ = unix.Close(descriptor)
	}
}

func awaitEnd(ctx context.Context, descriptor int) {
	for ctx.Err() == nil {
		polled := []unix.PollFd{{Fd: int32(descriptor), Events: unix.POLLIN}}
		if n, _ := unix.Poll(polled, pollMs); n > 0 {
			return
		}
	}
}

// pollMs bounds how long a context that has ended goes unseen.
const pollMs = 100
