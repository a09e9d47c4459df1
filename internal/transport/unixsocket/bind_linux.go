package unixsocket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
)

const defaultMode fs.FileMode = 0o660

// bindMode is the mode of a socket file until settle has set the final one.
const bindMode = 0o600

// A socket listens. file and listener have a descriptor of it each.
type socket struct {
	listener net.Listener
	file     *os.File
	id       fileID
}

func (s *socket) close() error { return errors.Join(s.file.Close(), s.listener.Close()) }

// bindAndPublish listens under a temporary name and then gives the socket its public
// name, so that whoever finds the socket finds it ready, with its mode.
func bindAndPublish(ctx context.Context, path string, options transport.ListenOptions) (bound socket, err error) {
	temporary, err := temporaryName(path)
	if err != nil {
		return bound, err
	}
	if err := removeSocket(temporary); err != nil {
		return bound, err
	}
	if bound, err = bindUnix(ctx, temporary, options); err != nil {
		return bound, err
	}
	if err := publish(temporary, path); err != nil {
		return bound, errors.Join(err, bound.close(), removeOwn(temporary, bound.id))
	}
	return bound, nil
}

// temporaryName returns a name in the same directory that only this process uses. It is
// shortened if the kernel would not take it otherwise.
func temporaryName(path string) (string, error) {
	long := path + "." + strconv.Itoa(os.Getpid())
	if len(long) <= address.UnixPathBytesMax {
		return long, nil
	}
	directory, name := filepath.Split(path)
	short := "." + strconv.FormatInt(int64(os.Getpid()), 36)
	room := address.UnixPathBytesMax - len(directory) - len(short)
	if room < 0 {
		return "", fmt.Errorf("nearcall: address unix:%s: no room for a temporary name beside it: use a shorter directory such as /run/NAME", path)
	}
	return directory + name[:min(room, len(name))] + short, nil
}

// bindUnix makes the socket by hand because package net would listen before
// the mode is set.
func bindUnix(ctx context.Context, path string, options transport.ListenOptions) (bound socket, err error) {
	if err := ctx.Err(); err != nil {
		return bound, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return bound, os.NewSyscallError("socket", err)
	}
	bound.file = os.NewFile(uintptr(fd), path)
	if bound.id, err = bindListen(fd, path, options); err != nil {
		return bound, errors.Join(err, bound.file.Close())
	}
	if bound.listener, err = net.FileListener(bound.file); err != nil {
		err = errors.Join(err, removeOwn(path, bound.id), bound.file.Close())
	}
	return bound, err
}

func bindListen(fd int, path string, options transport.ListenOptions) (id fileID, err error) {
	// The mode of the new file is that of the descriptor without the bits of the umask.
	// So it can be narrower than this, but never wider, until settle sets the final
	// mode.
	if err := unix.Fchmod(fd, bindMode); err != nil {
		return id, os.NewSyscallError("fchmod", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return id, &fs.PathError{Op: "bind", Path: path, Err: err}
	}
	bound, id, err := boundFile(fd, path)
	if err != nil {
		return id, errors.Join(err, removeUnopened(path))
	}
	defer unix.Close(bound)
	err = settle(bound, path, options)
	if err == nil {
		passRights(fd, options.PassRights)
		err = os.NewSyscallError("listen", unix.Listen(fd, wire.ListenBacklog))
	}
	if err != nil {
		err = errors.Join(err, removeOwn(path, id))
	}
	return id, err
}

// siocUnixFile asks for the file that a socket is bound to (SIOCUNIXFILE).
const siocUnixFile = 0x89e0

// boundFile opens the file of a socket that was just bound, without the right to use it
// (O_PATH). In a directory of another user the name may by now belong to anybody. A
// privileged process asks the kernel for the file itself. Any other process checks that
// the file looks like the one that it has just made, which in such a directory means a
// socket of its own.
func boundFile(fd int, path string) (bound int, id fileID, err error) {
	bound, err = unix.IoctlRetInt(fd, siocUnixFile)
	if err != nil {
		bound, err = unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return -1, id, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var stat unix.Stat_t
	if err = unix.Fstat(bound, &stat); err != nil {
		err = os.NewSyscallError("fstat", err)
	} else if !isAsBound(&stat) {
		err = fmt.Errorf("nearcall: %s was replaced by somebody else while it was made; use a directory that only the server can write", path)
	}
	if err != nil {
		return -1, id, errors.Join(err, os.NewSyscallError("close", unix.Close(bound)))
	}
	return bound, idOf(&stat), nil
}

// isAsBound reports whether a file may be the socket that was just bound.
func isAsBound(stat *unix.Stat_t) bool {
	return isSocket(stat) && int(stat.Uid) == os.Geteuid() && stat.Mode&0o777&^bindMode == 0
}

// removeUnopened removes a socket whose file could not be opened, for example because
// the process can have no more descriptors. It leaves anything that cannot be that
// socket.
func removeUnopened(path string) error {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil || !isAsBound(&stat) {
		return nil
	}
	return removeOwn(path, idOf(&stat))
}

// settle sets the group and the mode of an open file, whatever its name leads to by
// now.
func settle(bound int, path string, options transport.ListenOptions) error {
	if options.GroupID >= 0 {
		if err := unix.Fchownat(bound, "", -1, options.GroupID, unix.AT_EMPTY_PATH); err != nil {
			return &fs.PathError{Op: "chown", Path: path, Err: err}
		}
	}
	mode := options.Mode
	if mode == 0 {
		mode = defaultMode
	}
	err := unix.Fchmodat(bound, "", uint32(mode.Perm()), unix.AT_EMPTY_PATH)
	if err != nil {
		// This is for kernels before Linux 6.6, and for sandboxes that do not know the
		// call.
		err = unix.Chmod("/proc/self/fd/"+strconv.Itoa(bound), uint32(mode.Perm()))
	}
	if err != nil {
		return &fs.PathError{Op: "chmod", Path: path, Err: err}
	}
	return nil
}
