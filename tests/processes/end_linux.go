package processes

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// EndOf watches a process that may be no child of this one. await returns when it has ended
// and has closed all that it had open, and is to be called once.
func EndOf(t testing.TB, pid int) (await func(bound time.Duration)) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return func(time.Duration) {}
	}
	if err != nil {
		t.Fatal(err)
	}
	return func(bound time.Duration) {
		t.Helper()
		defer unix.Close(fd)
		Within(t, fmt.Sprintf("the end of process %d", pid), bound, func() error {
			watched := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			for {
				if _, err := unix.Poll(watched, -1); !errors.Is(err, unix.EINTR) {
					return err
				}
			}
		})
	}
}
