package handoff

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/address"
)

func credentialsOf(socket *net.UnixConn) (c Credentials, err error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return c, err
	}
	var asked error
	err = raw.Control(func(fd uintptr) {
		var peer *unix.Xucred
		if peer, asked = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED); asked != nil {
			return
		}
		var process int
		process, asked = unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID)
		c = Credentials{ProcessID: int32(process), UserID: peer.Uid, GroupID: peer.Groups[0]}
	})
	return c, errors.Join(err, asked)
}

// passRights does nothing: macOS cannot refuse descriptors.
func passRights(*net.UnixListener, bool) {}

// disarm does nothing: on macOS closing a descriptor that is not in blocking mode does
// not wait.
func disarm(int) {}

func newFile(descriptor int, name string) (*os.File, error) {
	return os.NewFile(uintptr(descriptor), name), nil
}

func closeFile(file *os.File) { _ = file.Close() }

const defaultMode fs.FileMode = 0o660

// listen gives the socket its name when it has its permissions. There is no lock on
// macOS: if two processes listen at the same moment, the last one has the name.
func listen(at address.Address, c *config) (net.Listener, error) {
	temporary := at.Target + ".new"
	if err := errors.Join(mayReplace(temporary), mayReplace(at.Target)); err != nil {
		return nil, err
	}
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: temporary})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	mode := c.mode
	if mode == 0 {
		mode = defaultMode
	}
	if err := errors.Join(os.Chmod(temporary, mode), os.Rename(temporary, at.Target)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// mayReplace fails unless the file is a socket on which nobody listens: anything else
// belongs to somebody and stays.
func mayReplace(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("nearcall: unix:%s cannot be an address: %w, and is no socket; choose another address, or move it away", path, fs.ErrExist)
	}
	conn, err := net.Dial("unix", path)
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("nearcall: %w: unix:%s; stop who listens first, or choose another address", unix.EADDRINUSE, path), conn.Close())
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fmt.Errorf("nearcall: unix:%s: %w, a socket of which it is not known whether somebody uses it (%w); choose another address, or remove it", path, fs.ErrExist, err)
}
