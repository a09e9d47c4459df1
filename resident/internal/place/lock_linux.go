package place

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A Lock is held by whoever starts a resident, or is one that leaves.
type Lock struct {
	path string
	file *os.File
}

// ErrLocked is returned where somebody else has the lock for long.
var ErrLocked = errors.New("somebody holds the resident's lock, as a launcher does that was stopped")

// TakeLock waits until nobody else has it.
func (p Place) TakeLock() (*Lock, error) {
	return p.takeLock(func(file *os.File) error { return flock(file, unix.LOCK_EX) })
}

// TakeLockSoon waits for it for a second, which is longer than anybody needs it who goes on.
func (p Place) TakeLockSoon() (*Lock, error) {
	until := time.Now().Add(lockPatience)
	return p.takeLock(func(file *os.File) error {
		for {
			err := flock(file, unix.LOCK_EX|unix.LOCK_NB)
			if !errors.Is(err, unix.EWOULDBLOCK) {
				return err
			}
			if time.Now().After(until) {
				return ErrLocked
			}
			time.Sleep(lockPause)
		}
	})
}

const (
	lockPatience = time.Second
	lockPause    = 5 * time.Millisecond // nobody tells when a lock is free
)

func (p Place) takeLock(wait func(*os.File) error) (*Lock, error) {
	for {
		file, err := os.OpenFile(p.Lock(), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := wait(file); err != nil {
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

func flock(file *os.File, how int) error {
	for {
		err := unix.Flock(int(file.Fd()), how)
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

// Release lets the next one in. It allows nil.
func (l *Lock) Release() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}
