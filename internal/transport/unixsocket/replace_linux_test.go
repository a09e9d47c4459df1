package unixsocket_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/rights/rightstest"
	"github.com/nearcall/nearcall/internal/transport"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// inTheWay has what may lie at an address by mistake, by its name in the error.
var inTheWay = map[string]func(path string) error{
	"a regular file":  func(path string) error { return os.WriteFile(path, []byte("valuable"), 0o600) },
	"a directory":     func(path string) error { return os.Mkdir(path, 0o700) },
	"a named pipe":    func(path string) error { return unix.Mkfifo(path, 0o600) },
	"a symbolic link": func(path string) error { return os.Symlink("elsewhere", path) },
}

// A directory in which the server may not write is named, with the server's user.
func TestDirectoryWithoutRights(t *testing.T) {
	directory := t.TempDir()
	must(t, os.Chmod(directory, 0o555))
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends as what it has become
		if os.Geteuid() == 0 {
			_ = unix.Setfsuid(65534) // nobody, as files see it
		}
		_, err := listen(t, filepath.Join(directory, "s.sock"))
		failed <- err
	}()
	err := <-failed
	if !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("%v, want that it may not", err)
	}
	for _, said := range []string{"user " + strconv.Itoa(os.Geteuid()), " in " + directory + ", ", "install -d -m 0750 -o"} {
		if !strings.Contains(err.Error(), said) {
			t.Errorf("%q does not say %q", err, said)
		}
	}
}

// What is no socket stays, whatever its name is, and the error says what it is.
func TestOnlySocketsAreReplaced(t *testing.T) {
	for kind, make := range inTheWay {
		t.Run(kind, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "data.db")
			must(t, make(path))
			before, err := os.Lstat(path)
			must(t, err)
			listener, err := listen(t, path)
			if err == nil {
				listener.Close()
			}
			if !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), kind) {
				t.Errorf("Listen: %v; want an error that names %s and %s", err, path, kind)
			}
			after, err := os.Lstat(path)
			if err != nil || !os.SameFile(before, after) || before.Size() != after.Size() {
				t.Errorf("%s is gone: %v", kind, err)
			}
			entries, err := os.ReadDir(filepath.Dir(path))
			must(t, err)
			for _, entry := range entries {
				if name := entry.Name(); name != "data.db" && name != "data.db.lock" {
					t.Errorf("%s was left behind", name)
				}
			}
		})
	}
}

// A socket of a program that knows nothing of locks is in use as long as it listens.
func TestLivingSocketsAreNotReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	other, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	other.SetUnlinkOnClose(false)
	if _, err := listen(t, path); !errors.Is(err, transport.ErrInUse) {
		t.Errorf("Listen: %v, want ErrInUse", err)
	}
	must(t, other.Close())
	own, err := listen(t, path)
	if err != nil {
		t.Fatalf("the socket of a program that has ended is not replaced: %v", err)
	}
	must(t, own.Close())
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket stays: %v", err)
	}
}

// A file that has the socket's number, after it, is no socket of ours.
func TestCloseRemovesSocketsOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := listen(t, path)
	must(t, err)
	must(t, os.Remove(path))
	must(t, os.WriteFile(path, nil, 0o600))
	must(t, listener.Close())
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the file that took the socket's place is gone: %v", err)
	}
}

// unprivileged is set in the environment of a test that runs as another user, of two groups.
const (
	unprivileged = "NEARCALL_TEST_UNPRIVILEGED"
	otherUser    = 12345
	otherGroup   = 1
)

// TestModeIsOfTheSocket: in a directory of another user its owner puts a link to a victim
// at every name that appears, as fast as it can. Neither mode nor group of the victim change.
// Root asks the kernel for the file that was bound; others, as whom it runs as well, cannot.
func TestModeIsOfTheSocket(t *testing.T) {
	replaceWhileListening(t)
	if os.Geteuid() != 0 || t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// By this name, because the program's directory is its user's alone.
	child := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), unprivileged+"=1", "TMPDIR=/tmp")
	child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser, Groups: []uint32{otherGroup}}}
	if out, err := child.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS")) {
		t.Fatalf("as another user: %v\n%s", err, out)
	}
}

// replaceWhileListening sets a group only where the process may.
func replaceWhileListening(t *testing.T) {
	t.Helper()
	directory, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	must(t, os.WriteFile(victim, nil, 0o600))
	must(t, os.Chown(victim, -1, os.Getgid()))
	group := -1
	if os.Geteuid() == 0 || os.Getenv(unprivileged) != "" {
		group = otherGroup
	}
	public := filepath.Join(directory, "s")
	temporary := public + "." + strconv.Itoa(os.Getpid())
	stop, swapped := make(chan struct{}), make(chan int)
	go func() { swapped <- swap(temporary, victim, stop) }()
	const attempts = 3000
	for range attempts {
		listener, err := listenWith(t, public, transport.ListenOptions{Mode: 0o666, GroupID: group})
		if err == nil {
			listener.Close()
		}
		_ = os.Remove(public)
		_ = os.Remove(temporary)
	}
	close(stop)
	if <-swapped == 0 {
		t.Errorf("%s was never replaced: nothing was tested", temporary)
	}
	info, err := os.Stat(victim)
	must(t, err)
	if stat, ok := info.Sys().(*syscall.Stat_t); info.Mode().Perm() != 0o600 || !ok || stat.Gid == otherGroup {
		t.Errorf("a file that a link led to has mode %v and group %d", info.Mode(), stat.Gid)
	}
}

// swap replaces a socket by a link whenever there is one, until it is stopped. It returns how
// often it did.
func swap(path, victim string, stop chan struct{}) (swapped int) {
	link := filepath.Join(filepath.Dir(path), "link")
	for {
		select {
		case <-stop:
			return swapped
		default:
		}
		_ = os.Symlink(victim, link)
		var stat unix.Stat_t
		if unix.Lstat(path, &stat) == nil && stat.Mode&unix.S_IFMT == unix.S_IFSOCK && os.Rename(link, path) == nil {
			swapped++
		}
	}
}

// TestNothingIsLeftWithoutDescriptors: wherever a process that can have no more of them
// fails, the socket that it was about to publish does not stay.
func TestNothingIsLeftWithoutDescriptors(t *testing.T) {
	directory := t.TempDir()
	var former unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &former))
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &former)) }()
	const roomMax = 16
	for room := range uint64(roomMax) {
		next, err := unix.Dup(0)
		must(t, err)
		must(t, unix.Close(next))
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(next) + room, Max: former.Max}))
		listener, err := listen(t, filepath.Join(directory, "s"))
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &former))
		if err == nil {
			must(t, listener.Close())
			return
		}
		if !errors.Is(err, unix.EMFILE) {
			t.Errorf("with room for %d descriptors: %v", room, err)
		}
		entries, err := os.ReadDir(directory)
		must(t, err)
		for _, entry := range entries {
			if name := entry.Name(); name != "s.lock" {
				t.Errorf("with room for %d descriptors %s was left behind", room, name)
			}
		}
	}
	t.Errorf("%d descriptors are not enough to listen", roomMax)
}

func TestModes(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o660, 0o666} {
		path := filepath.Join(t.TempDir(), "s")
		listener, err := listenWith(t, path, transport.ListenOptions{Mode: mode, GroupID: -1})
		must(t, err)
		info, err := os.Lstat(path)
		must(t, err)
		if info.Mode().Perm() != mode || info.Mode()&fs.ModeSocket == 0 {
			t.Errorf("mode %v, want %v", info.Mode(), mode)
		}
		must(t, listener.Close())
	}
}

// A listener ends although descriptors wait in connections that nobody has accepted.
func TestCloseOfAListenerDoesNotWait(t *testing.T) {
	if !rightstest.OnOldKernel(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "s")
	listener, err := listen(t, path)
	must(t, err)
	conn, err := net.Dial("unix", path)
	must(t, err)
	defer conn.Close()
	trap, err := rightstest.NewTrapper(t).Make()
	must(t, err)
	_, _, err = conn.(*net.UnixConn).WriteMsgUnix([]byte("x"), unix.UnixRights(trap), nil)
	must(t, err)
	must(t, unix.Close(trap))
	begin := time.Now()
	must(t, listener.Close())
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("closing took %v", took)
	}
}
