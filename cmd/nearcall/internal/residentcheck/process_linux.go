package residentcheck

import (
	"context"
	"syscall"

	"golang.org/x/sys/unix"
)

// inItsOwnSession keeps a run from the terminal, as a resident's runs are kept from it, and
// makes a group of what it starts.
func inItsOwnSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func killGroup(process int) { _ = syscall.Kill(-process, syscall.SIGKILL) }

// endOf returns what waits for the end of a process of others.
func endOf(process int) (wait func(ctx context.Context), err error) {
	descriptor, err := unix.PidfdOpen(process, 0)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		defer unix.Close(descriptor)
		for ctx.Err() == nil {
			polled := []unix.PollFd{{Fd: int32(descriptor), Events: unix.POLLIN}}
			if n, _ := unix.Poll(polled, pollMs); n > 0 {
				return
			}
		}
	}, nil
}

// pollMs bounds how long a context that has ended goes unseen.
const pollMs = 100
