package resident

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	variableListenPID   = "LISTEN_PID"
	variableListenFDs   = "LISTEN_FDS"
	variableListenNames = "LISTEN_FDNAMES"
	variableLock        = "NEARCALL_RESIDENT_LOCK"
	variableWatched     = "NEARCALL_RESIDENT_WATCHED" // of workers: see watched

	namesResident = "nearcall-resident"
	namesWorker   = "nearcall-resident:nearcall-lease:nearcall-queue"

	descriptorListener = 3
	descriptorLease    = 4
	descriptorQueue    = 5
)

var errNotInherited = errors.New(argumentResident + " is what nearcall-run starts residents with; start the program without it, or by nearcall-run")

// A start is what a resident's process was started with.
type start struct {
	worker  bool
	lock    string // a worker has none
	watched string // of a worker
}

// argumentsWereTaken tells that this process was started as a resident, when its
// arguments do not say so.
func argumentsWereTaken() bool {
	return os.Getenv(variableListenNames) == namesResident && os.Getenv(variableListenPID) == strconv.Itoa(os.Getpid())
}

// inherited takes the variables away, so that programs started by this one do not
// take its descriptors for theirs.
func inherited() (start, error) {
	names, lock := os.Getenv(variableListenNames), os.Getenv(variableLock)
	count, pid := os.Getenv(variableListenFDs), os.Getenv(variableListenPID)
	s := start{worker: names == namesWorker, lock: lock, watched: os.Getenv(variableWatched)}
	for _, name := range []string{variableListenPID, variableListenFDs, variableListenNames, variableLock, variableWatched} {
		_ = os.Unsetenv(name)
	}
	switch {
	case s.worker && count == "3":
		unix.CloseOnExec(descriptorLease)
		unix.CloseOnExec(descriptorQueue)
	case names == namesResident && count == "1" && pid == strconv.Itoa(os.Getpid()) && lock != "":
	default:
		return start{}, errNotInherited
	}
	unix.CloseOnExec(descriptorListener)
	listening, err := unix.GetsockoptInt(descriptorListener, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil || listening == 0 {
		return start{}, errNotInherited
	}
	return s, nil
}
