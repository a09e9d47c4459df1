// Package testlauncher is a launcher for tests: it asks residents as nearcall-run
// does, but from within the test, and never runs a program plainly itself.
package testlauncher

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/resident/internal/channel"
	"github.com/nearcall/nearcall/resident/internal/place"
	"github.com/nearcall/nearcall/resident/internal/request"
)

// A Launch is what is to be run. Zero values: the test's own.
type Launch struct {
	Program string // its path, absolute
	Args    []string
	Env     []string
	Dir     string
	Umask   int
	Files   [3]*os.File // nil: /dev/null
	Unnamed bool        // the directory is told by its descriptor only
	// Lower is the limit of files that the process gives itself once the descriptors are
	// sent, and before the rest is; 0: it keeps what it has.
	Lower uint64
}

// An Outcome is how a run ended.
type Outcome struct {
	Code    int
	Signal  syscall.Signal // 0: by itself
	Plainly string         // why nothing was done
	Ending  bool           // the code came before the connection ended
	Lost    bool           // nobody told how it ended
}

// A Run is one that a resident was asked for.
type Run struct {
	Conn      *net.UnixConn
	Group     int // 0: signals are sent
	ProcessID int
	executes  func(arguments []string) syscall.WaitStatus
}

// ErrNothingDone is a connection that ended before the run began.
var ErrNothingDone = errors.New("the connection ended, and nothing was done")

// ErrUnexpected is a frame where another was to come.
var ErrUnexpected = errors.New("an unexpected frame")

// Connect returns a connection to the program's resident, which it starts when there
// is none.
func Connect(program string, environment []string) (*net.UnixConn, error) {
	p, err := place.Of(program)
	if err != nil {
		return nil, err
	}
	address := &net.UnixAddr{Net: "unix", Name: p.Socket()}
	if conn, err := net.DialUnix("unix", nil, address); err == nil {
		return conn, nil
	}
	lock, err := p.TakeLock()
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Release() }()
	if conn, err := net.DialUnix("unix", nil, address); err == nil {
		return conn, nil
	}
	_ = os.Remove(p.Socket())
	listener, err := net.ListenUnix("unix", address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = listener.Close() }()
	// It waits in the backlog before the resident can have ended.
	conn, err := net.DialUnix("unix", nil, address)
	if err != nil {
		return nil, err
	}
	if err := start(p, program, environment, listener); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// start starts a resident. A shell knows the process id that it will have.
func start(p place.Place, program string, environment []string, listener *net.UnixListener) error {
	listener.SetUnlinkOnClose(false)
	socket, err := listener.File()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(p.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _, _ = socket.Close(), log.Close() }()
	// No descriptors but those below are open in a resident.
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return os.NewSyscallError("close_range", err)
	}
	command := exec.Command("/bin/sh", "-c", `umask 077; LISTEN_PID=$$ exec "$0" --nearcall-resident`, program)
	command.Env = append(environment[:len(environment):len(environment)],
		"LISTEN_FDS=1", "LISTEN_FDNAMES=nearcall-resident", "NEARCALL_RESIDENT_LOCK="+p.Lock(),
		"GORACE="+os.Getenv("GORACE"))
	command.Dir, command.Stdout, command.Stderr, command.ExtraFiles = "/", log, log, []*os.File{socket}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return err
	}
	go func() { _ = command.Wait() }()
	return nil
}

// Start asks for a run and returns when it has begun, or with an Outcome that says
// why it has not. When the connection ends before, it tries once more.
func (l Launch) Start() (*Run, *Outcome, error) {
	r, outcome, err := l.startOnce()
	if err != nil && !errors.Is(err, ErrUnexpected) {
		r, outcome, err = l.startOnce()
	}
	return r, outcome, err
}

func (l Launch) startOnce() (*Run, *Outcome, error) {
	if l.Env == nil {
		l.Env = os.Environ()
	}
	conn, err := Connect(l.Program, l.Env)
	if err != nil {
		return nil, nil, err
	}
	if err := l.Send(conn); err != nil {
		return nil, nil, errors.Join(ErrNothingDone, err, conn.Close())
	}
	r := &Run{Conn: conn}
	frame, err := r.Read()
	switch {
	case err != nil:
		return nil, nil, errors.Join(ErrNothingDone, err, conn.Close())
	case frame.Type == request.Plainly:
		return nil, &Outcome{Plainly: frame.Text}, conn.Close()
	case frame.Type != request.Running:
		return nil, nil, errors.Join(fmt.Errorf("%w: of type %d", ErrUnexpected, frame.Type), conn.Close())
	}
	r.Group, r.ProcessID = int(frame.Value), int(frame.Second)
	return r, nil, nil
}

// Send sends the request with its descriptors.
func (l Launch) Send(conn *net.UnixConn) error {
	if l.Env == nil {
		l.Env = os.Environ()
	}
	if l.Dir == "" {
		l.Dir = "/"
	}
	r := request.Request{
		Header:    request.Header{Kind: request.Run, ProcessID: uint32(os.Getpid()), Umask: uint32(l.Umask), Keyring: channel.Keyring()},
		Directory: l.Dir, Arguments: append([]string{l.Program}, l.Args...), Variables: l.Env,
	}
	if l.Unnamed {
		r.Directory = ""
	}
	b, err := r.Append(nil)
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	directory, err := unix.Open(l.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: l.Dir, Err: err}
	}
	defer func() { _ = unix.Close(directory) }()
	var descriptors []int
	for _, file := range l.Files {
		if file == nil {
			file = null
		}
		descriptors = append(descriptors, descriptorOf(file))
	}
	descriptors = append(descriptors, directory)
	if l.Lower == 0 {
		return SendWith(conn, b, descriptors...)
	}
	if err := SendWith(conn, b[:request.HeaderBytes], descriptors...); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: l.Lower, Max: l.Lower}); err != nil {
		return os.NewSyscallError("setrlimit", err)
	}
	return SendWith(conn, b[request.HeaderBytes:])
}

// descriptorOf leaves the file's mode as it is, which Fd does not.
func descriptorOf(file *os.File) int {
	number := -1
	if raw, err := file.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { number = int(fd) })
	}
	return number
}

// SendWith sends bytes, with descriptors beside the first.
func SendWith(conn *net.UnixConn, b []byte, descriptors ...int) error {
	n, _, err := conn.WriteMsgUnix(b, unix.UnixRights(descriptors...), nil)
	if err == nil && n < len(b) {
		_, err = conn.Write(b[n:])
	}
	return err
}

// OnExecute answers EXECUTE; without it such a run ends.
func (r *Run) OnExecute(f func(arguments []string) syscall.WaitStatus) { r.executes = f }

// Read returns the resident's next frame.
func (r *Run) Read() (request.Frame, error) { return channel.ReadFrame(r.Conn) }

// Signal passes a signal on.
func (r *Run) Signal(s syscall.Signal) error {
	if r.Group != 0 {
		return unix.Kill(-r.Group, s)
	}
	_, err := r.Conn.Write(request.Frame{Type: request.Signal, Value: uint32(s)}.Append(nil))
	return err
}

// Wait returns when the run has ended, and closes the connection.
func (r *Run) Wait() (Outcome, error) {
	defer func() { _ = r.Conn.Close() }()
	outcome := Outcome{Lost: true}
	for {
		frame, err := r.Read()
		if err != nil {
			return outcome, nil
		}
		switch frame.Type {
		case request.Exited:
			return Outcome{Code: int(frame.Value)}, nil
		case request.Killed:
			return Outcome{Signal: syscall.Signal(frame.Value)}, nil
		case request.Ending:
			outcome = Outcome{Code: int(frame.Value), Ending: true}
		case request.Execute:
			if err := r.execute(frame); err != nil {
				return outcome, err
			}
		default:
			return outcome, fmt.Errorf("%w: of type %d", ErrUnexpected, frame.Type)
		}
	}
}

func (r *Run) execute(frame request.Frame) error {
	arguments, err := frame.ExecuteArguments()
	if err != nil {
		return err
	}
	if r.executes == nil {
		return fmt.Errorf("the run wants %q executed", arguments)
	}
	status := r.executes(arguments)
	_, err = r.Conn.Write(request.Frame{Type: request.Executed, Value: uint32(status)}.Append(nil))
	return err
}

// Run asks for a run and waits for its end.
func (l Launch) Run() (Outcome, error) {
	r, outcome, err := l.Start()
	if err != nil {
		return Outcome{}, err
	}
	if outcome != nil {
		return *outcome, nil
	}
	return r.Wait()
}
