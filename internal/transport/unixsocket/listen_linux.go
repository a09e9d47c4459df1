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
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
)

const defaultMode fs.FileMode = 0o660

// A listener owns the socket's path and lock until it is closed.
type listener struct {
	net.Listener
	path  string
	inode uint64
	lock  *os.File

	closeOnce sync.Once
	closeErr  error
}

// File returns a copy of the socket, as net.UnixListener does.
func (l *listener) File() (*os.File, error) {
	socket, ok := l.Listener.(*net.UnixListener)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return socket.File()
}

// Lock returns the file whose lock shows that the socket is in use, for as long as
// anybody has it open. It stays the listener's.
func (l *listener) Lock() *os.File { return l.lock }

// SyscallConn implements syscall.Conn.
func (l *listener) SyscallConn() (syscall.RawConn, error) {
	socket, ok := l.Listener.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return socket.SyscallConn()
}

func listenPath(ctx context.Context, a address.Address, options transport.ListenOptions) (net.Listener, error) {
	lock, err := takeLock(a)
	if err != nil {
		return nil, err
	}
	bound, inode, err := bindAndPublish(ctx, a.Target, options)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &listener{Listener: bound, path: a.Target, inode: inode, lock: lock}, nil
}

// takeLock locks the file beside the socket. The lock belongs to the open file
// description, so it ends with this process however that ends. The file stays:
// removing it would let two servers hold locks on two files of one name.
func takeLock(a address.Address) (*os.File, error) {
	lock, err := os.OpenFile(a.Target+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("nearcall: the directory of %s does not exist: %w; make it, for callers and server alone, as by install -d -m 0750 %s", a, fs.ErrNotExist, filepath.Dir(a.Target))
	}
	if err != nil {
		return nil, err
	}
	whole := unix.Flock_t{Type: unix.F_WRLCK, Whence: 0}
	err = unix.FcntlFlock(lock.Fd(), unix.F_OFD_SETLK, &whole)
	if err == nil {
		return lock, nil
	}
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		err = fmt.Errorf("%w: %s; stop it first, or choose another address", transport.ErrInUse, a)
	} else {
		err = os.NewSyscallError("fcntl(F_OFD_SETLK)", err)
	}
	return nil, errors.Join(err, lock.Close())
}

// bindAndPublish listens under a temporary name and renames the socket over
// the public one, so that whoever finds it finds it ready, with its mode.
func bindAndPublish(ctx context.Context, path string, options transport.ListenOptions) (_ net.Listener, inode uint64, err error) {
	temporary, err := temporaryName(path)
	if err != nil {
		return nil, 0, err
	}
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, err
	}
	bound, err := bindUnix(ctx, temporary, options)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, bound.Close(), os.Remove(temporary))
		}
	}()
	var stat unix.Stat_t
	if err := unix.Stat(temporary, &stat); err != nil {
		return nil, 0, os.NewSyscallError("stat", err)
	}
	return bound, stat.Ino, os.Rename(temporary, path)
}

// temporaryName returns a name in the same directory that this process alone
// uses, shortened where the kernel would not take more.
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
func bindUnix(ctx context.Context, path string, options transport.ListenOptions) (net.Listener, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	if err := bindListen(fd, path, options); err != nil {
		return nil, err
	}
	return net.FileListener(file)
}

func bindListen(fd int, path string, options transport.ListenOptions) error {
	// The mode of the new file is the descriptor's mode less the umask, so it
	// can be narrower than asked but never wider; chmod then settles it.
	if err := unix.Fchmod(fd, 0o600); err != nil {
		return os.NewSyscallError("fchmod", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return &fs.PathError{Op: "bind", Path: path, Err: err}
	}
	if options.GroupID >= 0 {
		if err := os.Chown(path, -1, options.GroupID); err != nil {
			return err
		}
	}
	mode := options.Mode
	if mode == 0 {
		mode = defaultMode
	}
	if err := os.Chmod(path, mode); err != nil {
		return err
	}
	return os.NewSyscallError("listen", unix.Listen(fd, wire.ListenBacklog))
}

func listenUnix(ctx context.Context, target string) (net.Listener, error) {
	var config net.ListenConfig
	bound, err := config.Listen(ctx, "unix", target)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("%w: unix:%s", transport.ErrInUse, target)
	}
	return bound, err
}

// Close stops listening, removes the socket if the path still is this one's,
// and gives the lock back.
func (l *listener) Close() error {
	l.closeOnce.Do(func() {
		l.closeErr = errors.Join(l.Listener.Close(), l.removeOwn(), l.lock.Close())
	})
	return l.closeErr
}

func (l *listener) removeOwn() error {
	var stat unix.Stat_t
	if err := unix.Lstat(l.path, &stat); err != nil || stat.Ino != l.inode {
		return nil
	}
	return os.Remove(l.path)
}

// Addr returns the public path, not the temporary name the kernel knows.
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }
