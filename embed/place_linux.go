package embed

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/unixsocket"
)

// socketMode admits children that run as another user by now. They reach the socket by
// a way that they inherit. Everybody else is kept out by the directory.
const socketMode = 0o666

const lockSuffix = ".lock"

// A place is where this process serves other processes.
type place struct {
	path       string // path of the socket
	latest     string // a symbolic link to the socket of the process that came last
	descriptor int    // that of the socket itself; -1 before listen
	device     uint64
	inode      uint64
}

// makePlace chooses a place for the library in file. It removes what processes that
// were killed have left there.
func makePlace(file string) (*place, error) {
	directory, err := privateDirectory()
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256([]byte(file))
	latest := filepath.Join(directory, hex.EncodeToString(hash[:6]))
	removeAbandoned(latest)
	return &place{path: latest + "." + strings.ToLower(rand.Text()[:8]), latest: latest, descriptor: -1}, nil
}

// privateDirectory returns a directory of this user that nobody else may enter. A
// run-time directory that belongs to somebody else, as after su, or that is open to
// others, is not used.
func privateDirectory() (string, error) {
	directory := filepath.Join(os.TempDir(), "nearcall-embed-"+strconv.Itoa(os.Geteuid()))
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); runtime != "" {
		if err := checkPrivate(runtime); err == nil {
			directory = filepath.Join(runtime, "nearcall-embed")
		} else {
			slog.Debug("XDG_RUNTIME_DIR is not used for the socket of children", "reason", err, "instead", directory)
		}
	}
	if err := os.Mkdir(directory, 0o700); err != nil && !os.IsExist(err) {
		return "", fmt.Errorf("no place for the socket that children use: %w; set XDG_RUNTIME_DIR or TMPDIR", err)
	}
	if err := checkPrivate(directory); err != nil {
		return "", fmt.Errorf("%w: remove it, or set XDG_RUNTIME_DIR to a directory that is", err)
	}
	return directory, nil
}

func checkPrivate(directory string) error {
	var status unix.Stat_t
	if err := unix.Lstat(directory, &status); err != nil {
		return &os.PathError{Op: "lstat", Path: directory, Err: err}
	}
	if status.Mode&unix.S_IFMT != unix.S_IFDIR || status.Mode&0o077 != 0 || status.Uid != uint32(os.Geteuid()) {
		return fmt.Errorf("%s is not a directory of this user's alone (mode 0700)", directory)
	}
	return nil
}

// removeAbandoned removes sockets whose process no longer holds their lock. A lock is
// made before its socket; a lock without a socket may belong to a process that is just
// about to make it.
func removeAbandoned(latest string) {
	locks, _ := filepath.Glob(latest + ".*" + lockSuffix)
	for _, lock := range locks {
		socket := strings.TrimSuffix(lock, lockSuffix)
		if _, err := os.Lstat(socket); err != nil {
			continue
		}
		file, err := os.OpenFile(lock, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		// This is the kind of lock that the listener holds; flock(2) does not see it.
		whole := unix.Flock_t{Type: unix.F_WRLCK}
		if unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &whole) == nil {
			os.Remove(socket)
			os.Remove(lock)
		}
		file.Close()
	}
}

// listen binds the socket and makes it reachable. No fork can come between the two.
func (p *place) listen(ctx context.Context) (net.Listener, error) {
	at, err := address.Parse("unix:"+p.path, false)
	if err != nil {
		return nil, err
	}
	beginOpening()
	defer endOpening()
	bound, err := unixsocket.Transport{}.Listen(ctx, at, transport.ListenOptions{Mode: socketMode, GroupID: -1})
	if err != nil {
		return nil, err
	}
	kept, err := keepListener(bound)
	if err == nil {
		err = p.publish()
	}
	if err != nil {
		return nil, errors.Join(err, bound.Close())
	}
	announce(p)
	return kept, nil
}

func (p *place) publish() error {
	temporary := p.path + ".link"
	if err := os.Symlink(filepath.Base(p.path), temporary); err != nil {
		return err
	}
	if err := os.Rename(temporary, p.latest); err != nil {
		return err
	}
	descriptor, err := unix.Open(p.path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var status unix.Stat_t
	if err := unix.Fstat(descriptor, &status); err != nil {
		unix.Close(descriptor)
		return err
	}
	p.descriptor, p.device, p.inode = descriptor, status.Dev, status.Ino
	return nil
}
