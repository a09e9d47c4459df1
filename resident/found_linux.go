package resident

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/resident/internal/place"
)

// A socketFile is the file that a socket was bound to: another socket may be at its
// path by now.
type socketFile struct{ device, inode uint64 }

func socketFileAt(path string) (socketFile, error) {
	var status unix.Stat_t
	if err := unix.Lstat(path, &status); err != nil {
		return socketFile{}, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	// Its number may be another file's, once the socket is gone.
	if status.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return socketFile{}, &os.PathError{Op: "lstat", Path: path, Err: unix.ENOTSOCK}
	}
	return socketFile{status.Dev, status.Ino}, nil
}

// ownSocket returns the file that a launcher has bound, as it told; else the one that
// is at the path now.
func ownSocket(told, path string) (socketFile, error) {
	var f socketFile
	if _, err := fmt.Sscanf(told, "%d:%d", &f.device, &f.inode); err == nil {
		return f, nil
	}
	return socketFileAt(path)
}

// isFound tells whether launchers that connect reach this resident.
func (r *resident) isFound() bool {
	there, err := socketFileAt(r.place.Socket())
	return err == nil && there == r.socket
}

// ready tells launchers that this start came to something, unless they have given it
// up: under their lock, for they look there whether they may.
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
