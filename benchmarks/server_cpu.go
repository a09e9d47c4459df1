package main

import (
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
)

// A cpuClock tells the CPU time that who answers has used so far; nil: nothing can tell.
type cpuClock func() (*time.Duration, error)

// nobody answers, and uses nothing.
func nobody() (*time.Duration, error) { return new(time.Duration(0)), nil }

// notCounted is the clock of what cannot be told.
func notCounted() (*time.Duration, error) { return nil, nil }

// spent is what was used from one look at a clock to the next.
func spent(before, after *time.Duration) *time.Duration {
	if before == nil || after == nil {
		return nil
	}
	return new(*after - *before)
}

// clockOf is the clock of a server: of all that works for it.
func clockOf(p *process.Process) cpuClock {
	return func() (*time.Duration, error) {
		used, err := cpuOf(p)
		return &used, err
	}
}

// serverClock is the clock of who answers the callers of a row, which run.
func (s *scene) serverClock(row *measuredRow) cpuClock {
	server := s.servers[row.plan.server]
	switch {
	case row.plan.serverNotCounted:
		return notCounted
	case row.plan.route == byParent:
		// Of the parent alone: its child is the caller, which tells its own.
		return func() (*time.Duration, error) {
			used, err := processCPU(row.callers[0].PID())
			return &used, err
		}
	case row.plan.server == residentServer:
		return s.residentClock(s.built("echo"))
	case row.plan.command.resident != "":
		return s.residentClock(row.plan.command.resident)
	case server == nil:
		return nobody
	}
	return clockOf(server)
}

// residentClock is the clock of a program's resident, which is asked for once: with all
// processes of its own, also those that have run a command and ended. Where no resident
// is found, or it has gone, nothing is counted.
func (s *scene) residentClock(program string) cpuClock {
	pid := 0
	return func() (*time.Duration, error) {
		if pid == 0 {
			var err error
			if pid, err = s.residence().of(program); pid == 0 || err != nil {
				return nil, err
			}
		}
		used, err := treeCPU(pid)
		if hasEnded(err) {
			return nil, nil
		}
		return &used, err
	}
}
