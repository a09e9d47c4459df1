package place

import (
	"os"

	"golang.org/x/sys/unix"
)

// A Lock is held by whoever starts a resident, or is one that leaves.
type Lock struct {
	path string
	file *os.File
}

// TakeLock waits until nobody else has it.
func (p Place) TakeLock() (*Lock, error) {
	for {
		file, err := os.OpenFile(p.Lock(), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := flock(file); err != nil {
			_ = file.Close()
			return nil, err
		}
		if isAt(file, p.Lock()) {
			return &Lock{path: p.Lock(), file: file}, nil
		}
		// An outdated resident removed it while we waited.
		_ = file.Close()
	}
}

func flock(file *os.File) error {
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX)
		if err != unix.EINTR {
			return os.NewSyscallError("flock", err)
		}
	}
}

func isAt(file *os.File, path string) bool {
	held, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(held, there)
}

// File is the lock file, open for reading and writing.
func (l *Lock) File() *os.File { return l.file }

// Remove removes the file; the lock is to be released as well.
func (l *Lock) Remove() error { return os.Remove(l.path) }

// Release lets the next one in.
func (l *Lock) Release() error { return l.file.Close() }
