package main

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// endOf watches a process that may be no child of this one. gone waits until it has
// ended and may be called once.
func endOf(pid int) (gone func(time.Duration) error, err error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return func(time.Duration) error { return nil }, nil
	}
	if err != nil {
		return nil, fmt.Errorf("watching process %d: %w", pid, err)
	}
	return func(timeout time.Duration) error {
		defer unix.Close(fd)
		watched := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			n, err := unix.Poll(watched, int(timeout.Milliseconds()))
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case err == nil && n == 0:
				err = fmt.Errorf("process %d has not ended after %v", pid, timeout)
			}
			return err
		}
	}, nil
}
