package unixsocket

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/transport"
)

// A fileID distinguishes a file from all others that exist at the same time. Once a
// file is gone its number may belong to another one, so what kind of file it is counts
// too.
type fileID struct{ device, inode uint64 }

func idOf(stat *unix.Stat_t) fileID { return fileID{device: uint64(stat.Dev), inode: stat.Ino} }

// publish gives a socket its public name. It replaces only a socket on which nobody
// listens. Everything else belongs to somebody and stays.
func publish(temporary, path string) error {
	for {
		err := unix.Renameat2(unix.AT_FDCWD, temporary, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
		switch {
		case err == nil:
			return nil
		case err != unix.EEXIST && err != unix.EINVAL && err != unix.ENOSYS:
			return &os.LinkError{Op: "rename", Old: temporary, New: path, Err: err}
		}
		dead, judgement := judge(path)
		switch {
		case judgement != nil:
			return judgement
		case err != unix.EEXIST:
			// Some file systems cannot check and rename in one step.
			return os.Rename(temporary, path)
		case dead == fileID{}:
			continue // it has gone meanwhile
		}
		if done, err := replace(temporary, path, dead); done || err != nil {
			return err
		}
	}
}

// replace puts a socket in the place of one that was found to be dead. If something
// else is there by now, it gets its place back.
func replace(temporary, path string, dead fileID) (done bool, err error) {
	exchange := func() error {
		err := unix.Renameat2(unix.AT_FDCWD, temporary, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
		if err == unix.ENOENT {
			return nil // there is nothing left to remove
		}
		return os.NewSyscallError("renameat2", err)
	}
	if err := exchange(); err != nil {
		return false, err
	}
	var stat unix.Stat_t
	if err := unix.Lstat(temporary, &stat); err != nil {
		return false, &fs.PathError{Op: "lstat", Path: temporary, Err: err}
	}
	if isSocket(&stat) && idOf(&stat) == dead {
		return true, os.Remove(temporary)
	}
	return false, exchange()
}

// RemoveDead removes a socket on which nobody listens. It fails if the file is anything
// else.
func RemoveDead(path string) error {
	dead, err := judge(path)
	if err != nil || dead == (fileID{}) {
		return err
	}
	return removeOwn(path, dead)
}

// judge returns the id of a socket on which nobody listens, and the zero id if there is
// no file. For anything else it returns an error that says what it is.
func judge(path string) (dead fileID, err error) {
	var stat unix.Stat_t
	err = unix.Lstat(path, &stat)
	switch {
	case err == unix.ENOENT:
		return fileID{}, nil
	case err != nil:
		return fileID{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
	case !isSocket(&stat):
		return fileID{}, fmt.Errorf("nearcall: unix:%s cannot be an address: %w, %s; choose another address, or move it away", path, fs.ErrExist, kindOf(&stat))
	}
	switch err := knock(path); err {
	case unix.ECONNREFUSED:
		return idOf(&stat), nil
	case unix.ENOENT:
		return fileID{}, nil
	case nil, unix.EAGAIN, unix.EINPROGRESS:
		return fileID{}, fmt.Errorf("%w: unix:%s; stop it first, or choose another address", transport.ErrInUse, path)
	default:
		return fileID{}, fmt.Errorf("nearcall: unix:%s: %w, a socket of which it is not known whether somebody uses it (connect: %w); choose another address, or remove it", path, fs.ErrExist, err)
	}
}

// knock connects and closes the connection again.
func knock(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: path})
}

func isSocket(stat *unix.Stat_t) bool { return stat.Mode&unix.S_IFMT == unix.S_IFSOCK }

func kindOf(stat *unix.Stat_t) string {
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "a regular file"
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFLNK:
		return "a symbolic link"
	case unix.S_IFIFO:
		return "a named pipe"
	}
	return "a device"
}

// removeSocket removes what an earlier process with the same number has left.
func removeSocket(path string) error {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil || !isSocket(&stat) {
		return nil // binding will say what is there
	}
	return removeOwn(path, idOf(&stat))
}

// removeOwn removes a socket unless something else has its name by now.
func removeOwn(path string, id fileID) error {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil || !isSocket(&stat) || idOf(&stat) != id {
		return nil
	}
	if err := unix.Unlink(path); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "unlink", Path: path, Err: err}
	}
	return nil
}
