package place

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// StatOf follows symbolic links.
func StatOf(path string) (Stat, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return Stat{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return Stat{
		Device: uint64(s.Dev), Inode: uint64(s.Ino), Size: uint64(s.Size),
		ModifiedSeconds: uint64(s.Mtim.Sec), ModifiedNano: uint64(s.Mtim.Nsec),
		ChangedSeconds: uint64(s.Ctim.Sec), ChangedNanoseconds: uint64(s.Ctim.Nsec),
	}, nil
}

func checkPrivate(path string) error {
	var s unix.Stat_t
	if err := unix.Lstat(path, &s); err != nil {
		return &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	if s.Mode&unix.S_IFMT != unix.S_IFDIR || int(s.Uid) != os.Geteuid() || s.Mode&0o077 != 0 {
		return fmt.Errorf("%w: %s has owner %d and mode %#o; it must be a directory of user %d with mode 0700",
			ErrUnsafe, path, s.Uid, s.Mode&0o7777, os.Geteuid())
	}
	return nil
}

// canMakeIn tells whether launchers would make a directory there: sudo may leave them
// another user's.
func canMakeIn(base string) bool {
	var s unix.Stat_t
	return unix.Stat(base, &s) == nil && s.Mode&unix.S_IFMT == unix.S_IFDIR && int(s.Uid) == os.Geteuid() &&
		unix.Faccessat(unix.AT_FDCWD, base, unix.W_OK|unix.X_OK, unix.AT_EACCESS) == nil
}
