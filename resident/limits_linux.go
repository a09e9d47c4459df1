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

// resourceLimits are the limits of a process, by their numbers.
type resourceLimits [limitsCount]unix.Rlimit

// limitsOf returns the limits of a process; 0 means this one.
func limitsOf(pid int) (l resourceLimits, err error) {
	for resource := range l {
		if err := unix.Prlimit(pid, resource, nil, &l[resource]); err != nil {
			return l, os.NewSyscallError("prlimit", err)
		}
	}
	return l, nil
}

// same compares one limit. It ignores the soft limit of files, which Go has raised.
func (l *resourceLimits) same(other *resourceLimits, resource int) bool {
	return l[resource] == other[resource] || resource == unix.RLIMIT_NOFILE && l[resource].Max == other[resource].Max
}

// sharedLimits returns the limits that a process has for all its runs, or nil if each
// run has its own.
func sharedLimits(m Mode) (*resourceLimits, error) {
	if m == Pool {
		return nil, nil
	}
	l, err := limitsOf(0)
	return &l, err
}

// allow returns an error if the caller has other limits than these, so that it is to
// run the program itself. It may be called on nil.
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

// restore sets the limits of this process back to these, as far as that is allowed.
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

// filesAtStart returns the soft limit of files with which this process was started, or
// "" if that is not known. Package syscall has raised the limit by now. It sets the
// original one only in processes that it starts, so one of those is asked.
func filesAtStart() string {
	soft, err := exec.Command("/bin/sh", "-c", "ulimit -Sn").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(soft))
}

// limits takes the caller's resource limits over. Limits that are to be raised come
// first, because only raising can be forbidden, and up to there everything can be
// undone. After an error that is not a plainlyError some limits are already the
// caller's. files is what filesAtStart has returned: if the caller's limit is the same,
// Go's own limit of files stays as it is after a plain start.
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
			// This must not be prlimit: package syscall has to know that Go's own limit
			// of files no longer applies.
			if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: theirs[resource].Cur, Max: theirs[resource].Max}); err != nil {
				return refusedLimit(resource, err, ours.restore())
			}
		}
	}
	return nil
}

// refusedLimit returns an error that is EPERM if this process may not raise its limit
// as far as the caller's.
func refusedLimit(resource int, refused, restored error) error {
	if restored != nil {
		return fmt.Errorf("the caller's resource limit %d cannot be set: %w", resource, refused)
	}
	return errors.Join(plainlyError(fmt.Sprintf("the caller's resource limit %d cannot be set: %v", resource, refused)), refused)
}
