package pipe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/windows"
)

// prefix begins the name of every local pipe.
const prefix = `\\.\pipe\`

// bufferBytes is what the kernel keeps for each direction of a pipe.
const bufferBytes = 64 << 10

// onlyOwnerAndSystem is the pipe's access list: all rights for its owner and for
// the system, inherited from nowhere.
const onlyOwnerAndSystem = "D:P(A;;GA;;;OW)(A;;GA;;;SY)"

// A Listener accepts connections to a pipe. One Accept runs at a time; it keeps
// a thread while it waits, and Close ends it.
type Listener struct {
	name    string
	closing windows.Handle // an event, set for ever by Close

	accepting sync.Mutex
	instance  windows.Handle // that the next client meets, 0 where none could be made; guarded by accepting
	closed    bool           // guarded by accepting
	closeOnce sync.Once
}

// Listen makes the pipe of a name without backslashes. It refuses a name that
// somebody listens on, so that nobody can come between.
func Listen(name string) (*Listener, error) {
	if name == "" || strings.ContainsAny(name, `\/`) {
		return nil, fmt.Errorf("pipe: the name %q: it must have characters, and none of them a slash or backslash", name)
	}
	closing, err := windows.CreateEvent(nil, 1, 0, nil)
	if err != nil {
		return nil, os.NewSyscallError("CreateEvent", err)
	}
	l := &Listener{name: prefix + name, closing: closing}
	if l.instance, err = createInstance(l.name, windows.FILE_FLAG_FIRST_PIPE_INSTANCE); err != nil {
		_ = windows.CloseHandle(closing)
		return nil, fmt.Errorf("pipe: listen on %s: %w", l.name, err)
	}
	return l, nil
}

func createInstance(name string, flags uint32) (windows.Handle, error) {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return 0, err
	}
	attributes, err := securityAttributes(onlyOwnerAndSystem)
	if err != nil {
		return 0, err
	}
	return windows.CreateNamedPipe(path,
		windows.PIPE_ACCESS_DUPLEX|windows.FILE_FLAG_OVERLAPPED|flags,
		windows.PIPE_TYPE_BYTE|windows.PIPE_READMODE_BYTE|windows.PIPE_WAIT|windows.PIPE_REJECT_REMOTE_CLIENTS,
		windows.PIPE_UNLIMITED_INSTANCES, bufferBytes, bufferBytes, 0, attributes)
}

// Accept waits for the next client. After Close it returns net.ErrClosed.
func (l *Listener) Accept() (*Conn, error) {
	l.accepting.Lock()
	defer l.accepting.Unlock()
	for {
		if l.closed {
			return nil, net.ErrClosed
		}
		if l.instance == 0 {
			made, err := createInstance(l.name, 0)
			if err != nil {
				return nil, fmt.Errorf("pipe: another instance of %s: %w", l.name, err)
			}
			l.instance = made
		}
		err := l.connect()
		if errors.Is(err, net.ErrClosed) {
			l.closed = true
			l.dropInstance()
			return nil, err
		}
		connected := l.instance
		next, createErr := createInstance(l.name, 0)
		if createErr != nil {
			next = 0 // the next Accept tries again
		}
		l.instance = next
		if err == nil {
			return newConn(connected, l.name, windows.GetNamedPipeClientProcessId)
		}
		// A client that came and left again: its instance is used up.
		_ = windows.CloseHandle(connected)
	}
}

// connect waits until a client meets the instance, or until Close.
func (l *Listener) connect() error {
	arrived, err := windows.CreateEvent(nil, 1, 0, nil)
	if err != nil {
		return os.NewSyscallError("CreateEvent", err)
	}
	defer func() { _ = windows.CloseHandle(arrived) }()
	overlapped := &windows.Overlapped{HEvent: arrived}
	switch err := windows.ConnectNamedPipe(l.instance, overlapped); err {
	case nil, windows.ERROR_PIPE_CONNECTED:
		return nil
	case windows.ERROR_IO_PENDING:
		return l.await(overlapped)
	default:
		return os.NewSyscallError("ConnectNamedPipe", err)
	}
}

func (l *Listener) await(overlapped *windows.Overlapped) error {
	which, err := windows.WaitForMultipleObjects([]windows.Handle{l.closing, overlapped.HEvent}, false, windows.INFINITE)
	var ignored uint32
	if err != nil || which == windows.WAIT_OBJECT_0 {
		// The kernel writes to overlapped until it has said that it will not.
		_ = windows.CancelIoEx(l.instance, overlapped)
		_ = windows.GetOverlappedResult(l.instance, overlapped, &ignored, true)
		return net.ErrClosed
	}
	return os.NewSyscallError("ConnectNamedPipe", windows.GetOverlappedResult(l.instance, overlapped, &ignored, false))
}

func (l *Listener) dropInstance() {
	_ = windows.CloseHandle(l.instance)
	l.instance = 0
}

// Close ends Accept and removes the pipe's name; connections live on.
func (l *Listener) Close() error {
	l.closeOnce.Do(func() {
		_ = windows.SetEvent(l.closing)
		l.accepting.Lock()
		defer l.accepting.Unlock()
		l.closed = true
		if l.instance != 0 {
			l.dropInstance()
		}
		_ = windows.CloseHandle(l.closing)
	})
	return nil
}

// Dial connects to the pipe of a name, and waits while all of its instances are
// busy, until the context ends. Nobody who listens is os.ErrNotExist.
func Dial(ctx context.Context, name string) (*Conn, error) {
	path, err := windows.UTF16PtrFromString(prefix + name)
	if err != nil {
		return nil, err
	}
	for {
		// The server may learn who we are and not act in our name.
		handle, err := windows.CreateFile(path, windows.GENERIC_READ|windows.GENERIC_WRITE, 0, nil, windows.OPEN_EXISTING,
			windows.FILE_FLAG_OVERLAPPED|windows.SECURITY_SQOS_PRESENT|windows.SECURITY_IDENTIFICATION, 0)
		if err == nil {
			return newConn(handle, prefix+name, windows.GetNamedPipeServerProcessId)
		}
		if !errors.Is(err, windows.ERROR_PIPE_BUSY) {
			return nil, &os.PathError{Op: "dial", Path: prefix + name, Err: err}
		}
		waitForInstance(path)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}
