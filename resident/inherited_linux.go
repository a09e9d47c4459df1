package resident

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/resident/internal/inheritance"
)

var errNotInherited = errors.New(argumentResident + " is what nearcall-run starts residents with; start the program without it, or by nearcall-run")

// A start is what a resident's process was started with.
type start struct {
	worker  bool
	lock    string // empty in a worker
	socket  string // in a resident: its file, as a socketFile has it; "" if not known
	watched string // in a worker only
	files   string // in a worker: the soft limit of files with which it was started; "" if not known
}

// argumentsWereTaken reports whether this process was started as a resident although
// its arguments do not say so.
func argumentsWereTaken() bool { return inheritance.Resident() }

// inherited reads what this process was started with and removes the variables for it,
// so that programs which this process starts do not mistake its descriptors for their
// own.
func inherited() (start, error) {
	s := start{worker: inheritance.Worker(), lock: os.Getenv(inheritance.Lock), socket: os.Getenv(inheritance.Socket), watched: os.Getenv(inheritance.Watched), files: os.Getenv(inheritance.Files)}
	isResident, count := inheritance.Resident() && s.lock != "", os.Getenv(inheritance.ListenFDs)
	for _, name := range []string{inheritance.ListenPID, inheritance.ListenFDs, inheritance.ListenNames, inheritance.Lock, inheritance.Socket, inheritance.Directory, inheritance.Watched, inheritance.Files} {
		_ = os.Unsetenv(name)
	}
	if !(s.worker && count == "3" || isResident && count == "1") {
		return start{}, errNotInherited
	}
	listening, err := unix.GetsockoptInt(inheritance.Listener, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil || listening == 0 {
		return start{}, errNotInherited
	}
	return s, nil
}
