//go:build unix

package resident

import (
	"os"
	"syscall"
)

// passedOn returns the signals that a launcher passes on, except TSTP, which stops.
func passedOn() []os.Signal {
	return []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGTERM, syscall.SIGCONT, syscall.SIGWINCH}
}
