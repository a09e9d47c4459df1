package resident

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/peercred"
)

// limitsCount is the number of resource limits there are on Linux.
const limitsCount = 16

// resourceLimits are those of a process, by their numbers.
type resourceLimits [limitsCount]unix.Rlimit

// limitsOf returns those of a process; 0: this one.
func limitsOf(pid int) (l resourceLimits, err error) {
	for resource := range l {
		if err := unix.Prlimit(pid, resource, nil, &l[resource]); err != nil {
			return l, os.NewSyscallError("prlimit", err)
		}
	}
	return l, nil
}

// same leaves out the soft limit of files: Go has raised it.
func (l *resourceLimits) same(other *resourceLimits, resource int) bool {
	return l[resource] == other[resource] || resource == unix.RLIMIT_NOFILE && l[resource].Max == other[resource].Max
}

// sharedLimits returns those that a process has for all its runs; nil: each has its own.
func sharedLimits(m Mode) (*resourceLimits, error) {
	if m == Pool {
		return nil, nil
	}
	l, err := limitsOf(0)
	return &l, err
}

// allow says why a caller with other limits than these is to run the program itself.
// It allows nil.
func (l *resourceLimits) allow(peer peercred.Credentials) error {
	if l == nil {
		return nil
	}
	theirs, err := limitsOf(int(peer.ProcessID))
	if err != nil {
		return plainlyError(fmt.Sprintf("the caller's resource limits are not known: %v", err))
	}
	for resource := range l {
		if !l.same(&theirs, resource) {
			return plainlyError(fmt.Sprintf("the caller's resource limit %d is another", resource))
		}
	}
	return nil
}

// restore sets the limits of this process back to these, as far as it is allowed to.
func (l *resourceLimits) restore() error {
	now, err := limitsOf(0)
	if err != nil || now == *l {
		return err
	}
	for resource := range l {
		if now[resource] == l[resource] {
			continue
		}
		if err := unix.Prlimit(0, resource, &l[resource], nil); err != nil {
			return fmt.Errorf("resource limit %d of a run cannot be set back: %w", resource, err)
		}
	}
	return nil
}

// filesAtStart returns the soft limit of files that this process was started with, and
// "" when that is not known: package syscall has raised it by now, and tells the other one
// only those that it starts, who get it.
func filesAtStart() string {
	soft, err := exec.Command("/bin/sh", "-c", "ulimit -Sn").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(soft))
}

// limits takes the caller's resource limits over. Those to be raised come first: only
// that can be forbidden, and it can be undone. After an error that is no plainlyError
// some are the caller's already. files is what filesAtStart said: a caller who has the
// same leaves Go's own limit of files where a plain start has it.
func (p *passed) limits(files string) error {
	theirs, err := limitsOf(int(p.peer.ProcessID))
	if err != nil {
		return plainlyError(fmt.Sprintf("the caller's resource limits are not known: %v", err))
	}
	ours, err := limitsOf(0)
	if err != nil {
		return err
	}
	for _, raise := range []bool{true, false} {
		for resource := range ours {
			same := ours.same(&theirs, resource)
			if resource == unix.RLIMIT_NOFILE {
				same = same && files == fmt.Sprint(theirs[resource].Cur)
			}
			if same || raise != (theirs[resource].Max > ours[resource].Max) {
				continue
			}
			// Not by prlimit: package syscall is to know that Go's own limit of files is no more.
			if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: theirs[resource].Cur, Max: theirs[resource].Max}); err != nil {
				return refusedLimit(resource, err, ours.restore())
			}
		}
	}
	return nil
}

// refusedLimit is EPERM where this process has not enough of the limit to give it.
func refusedLimit(resource int, refused, restored error) error {
	if restored != nil {
		return fmt.Errorf("the caller's resource limit %d cannot be set: %w", resource, refused)
	}
	return errors.Join(plainlyError(fmt.Sprintf("the caller's resource limit %d cannot be set: %v", resource, refused)), refused)
}
