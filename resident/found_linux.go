package resident

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/resident/internal/place"
)

// A socketFile identifies the file to which a socket was bound. By now another socket
// may be at the same path.
type socketFile struct{ device, inode uint64 }

func socketFileAt(path string) (socketFile, error) {
	var status unix.Stat_t
	if err := unix.Lstat(path, &status); err != nil {
		return socketFile{}, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	// Once the socket is gone its number may be that of another file.
	if status.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return socketFile{}, &os.PathError{Op: "lstat", Path: path, Err: unix.ENOTSOCK}
	}
	return socketFile{status.Dev, status.Ino}, nil
}

// ownSocket returns the file that the launcher has bound, if it said which, or else the
// file that is at the path now.
func ownSocket(told, path string) (socketFile, error) {
	var f socketFile
	if _, err := fmt.Sscanf(told, "%d:%d", &f.device, &f.inode); err == nil {
		return f, nil
	}
	return socketFileAt(path)
}

// isFound reports whether launchers that connect reach this resident.
func (r *resident) isFound() bool {
	there, err := socketFileAt(r.place.Socket())
	return err == nil && there == r.socket
}

// ready tells launchers that this start has succeeded, unless they have given it up. It
// does so under their lock, because they look there to decide whether to start a
// resident.
func (r *resident) ready() {
	lock, err := r.place.TakeLockSoon()
	defer func() { _ = lock.Release() }()
	if errors.Is(err, place.ErrLocked) {
		err = nil
	}
	if !r.isFound() {
		r.goAway(gone())
		return
	}
	if err := errors.Join(err, os.Truncate(r.place.Lock(), 0)); err != nil {
		r.log.Warn("the lock file was not emptied", "reason", err)
	}
}

func gone() leaving {
	return leaving{why: "its socket is gone: a launcher waited in vain for it to be ready (NEARCALL_RUN_ANSWER_MS), or somebody removed it"}
}
