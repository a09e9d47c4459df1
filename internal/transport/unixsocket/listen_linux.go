package unixsocket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/rights"
	"github.com/nearcall/nearcall/internal/transport"
)

// A listener owns the socket's path and lock until it is closed.
type listener struct {
	net.Listener
	path string
	id   fileID
	lock *os.File
	// waiting is the same socket, and waits for callers.
	waiting *os.File
	queue   syscall.RawConn
	// clean is whether the kernel has refused descriptors for those who connect from the
	// beginning.
	clean bool

	closeOnce sync.Once
	closeErr  error
}

// Accept waits until a caller has connected before it accepts. Package net tries to accept
// and then waits, after each connection; the kernel makes a socket and a file for that before
// it finds out that there is nobody, which takes as long as a few system calls.
func (l *listener) Accept() (net.Conn, error) {
	// If waiting fails accepting waits, or says why.
	_ = l.queue.Read(hasCaller)
	// Another process that has the socket may be faster; this waits then.
	return l.Listener.Accept()
}

// File returns a copy of the socket, as net.UnixListener does.
func (l *listener) File() (*os.File, error) {
	socket, ok := l.Listener.(*net.UnixListener)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return socket.File()
}

// Lock returns the file whose lock shows that the socket is in use. The lock lasts for
// as long as anybody has the file open. The file belongs to the listener.
func (l *listener) Lock() *os.File { return l.lock }

// Waiting returns the listener's own second descriptor of the socket, which keeps the socket
// open as the first one does. The file belongs to the listener.
func (l *listener) Waiting() *os.File { return l.waiting }

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
	bound, err := bindAndPublish(ctx, a.Target, options)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	queue, err := bound.file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, bound.close(), removeOwn(a.Target, bound.id), lock.Close())
	}
	clean := !options.PassRights && refusesRights(bound.listener)
	return &listener{Listener: bound.listener, path: a.Target, id: bound.id, lock: lock, waiting: bound.file, queue: queue, clean: clean}, nil
}

// takeLock locks the file beside the socket. The lock belongs to the open file
// description, so it ends with this process, however the process ends. The file stays:
// if it were removed, two servers could hold locks on two files with the same name.
func takeLock(a address.Address) (*os.File, error) {
	lock, err := os.OpenFile(a.Target+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("nearcall: the directory of %s does not exist: %w; make it, for callers and server alone, as by install -d -m 0750 %s", a, fs.ErrNotExist, filepath.Dir(a.Target))
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, mayNotListen(a)
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

// mayNotListen returns the error for a socket or a lock that could not be made. In
// either case the directory has to be another one.
func mayNotListen(a address.Address) error {
	directory, user := filepath.Dir(a.Target), os.Geteuid()
	return fmt.Errorf("nearcall: user %d may not make a socket and its lock in %s, for %s: %w; let the directory be that user's, as by install -d -m 0750 -o %d %s, or choose another address",
		user, directory, a, fs.ErrPermission, user, directory)
}

func listenUnix(ctx context.Context, target string, options transport.ListenOptions) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { passRights(int(fd), options.PassRights) })
	}}
	bound, err := config.Listen(ctx, "unix", target)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("%w: unix:%s", transport.ErrInUse, target)
	}
	return bound, err
}

// PassRights says whether processes that connect to a listener may send descriptors
// before they are expected. It is for listeners that were made elsewhere, such as by
// socket activation.
func PassRights(on net.Listener, pass bool) {
	socket, ok := on.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := socket.SyscallConn(); err == nil {
		// This fails if the listener is closed.
		_ = raw.Control(func(fd uintptr) { passRights(int(fd), pass) })
	}
}

func passRights(socket int, pass bool) {
	if pass {
		rights.Allow(socket)
	} else {
		rights.Refuse(socket)
	}
}

// refusesRights reports whether the kernel refuses descriptors on behalf of a listener that
// was told so before it listened.
func refusesRights(on net.Listener) (refuses bool) {
	if raw, err := on.(syscall.Conn).SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { refuses = rights.Refuse(int(fd)) })
	}
	return refuses
}

// Close stops listening, removes the socket if the path still belongs to it, and gives
// the lock back.
func (l *listener) Close() error {
	l.closeOnce.Do(func() {
		l.closeErr = errors.Join(l.waiting.Close(), closeSoon(l.Listener), removeOwn(l.path, l.id), l.lock.Close())
	})
	return l.closeErr
}

// closeWait is how long to wait for the end of a listener. Connections that nobody has
// accepted end with it, and so does what was sent on them. On kernels that cannot
// refuse descriptors, that may take as long as their senders like.
const closeWait = 100 * time.Millisecond

func closeSoon(l net.Listener) error {
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case err := <-closed:
		return err
	case <-timer.C:
		return nil
	}
}

// Addr returns the public path, not the temporary name the kernel knows.
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }
