package place_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/resident/internal/place"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// independently computes a file's identity as the specification has it.
const independently = `
import os, struct, sys
s = os.stat(sys.argv[1])
def both(ns): return divmod(ns, 10**9)
h = 0xcbf29ce484222325
for b in struct.pack("<7Q", s.st_dev, s.st_ino, s.st_size, *both(s.st_mtime_ns), *both(s.st_ctime_ns)):
    h = (h ^ b) * 0x100000001b3 % 2**64
print("%016x" % h, end="")
`

// A program's identity is that of its file, through symbolic links.
func TestIdentity(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	program := filepath.Join(t.TempDir(), "a program with spaces, and a long name")
	must(t, os.WriteFile(program, []byte("one"), 0o700))
	want, err := exec.Command("python3", "-c", independently, program).Output()
	must(t, err)
	p, err := place.Of(program)
	must(t, err)
	if p.Identity != string(want) || p.Program != "a_program_with_spaces__and_a_lon" {
		t.Errorf("%+v, want identity %s", p, want)
	}
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(program, link))
	linked, err := place.Of(link)
	must(t, err)
	if linked.Identity != p.Identity || linked.Program != "link" {
		t.Errorf("by a link it is %+v", linked)
	}
	must(t, os.Chtimes(program, time.Time{}, time.Unix(1, 0)))
	if touched, err := place.Of(program); err != nil || touched.Identity == p.Identity {
		t.Errorf("touched it is %+v, %v", touched, err)
	}
	if _, err := place.Of(program + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
}

// Names of files and their places belong together.
func TestNames(t *testing.T) {
	p := place.Place{Directory: "/run/x", Program: "a-b", Identity: "0123456789abcdef"}
	if got, err := place.OfLock(p.Lock()); err != nil || got != p || p.Socket() != "/run/x/a-b-0123456789abcdef.sock" || !strings.HasSuffix(p.Log(), ".log") {
		t.Errorf("%+v, %v", got, err)
	}
	for _, path := range []string{p.Socket(), "a-0123456789abcdef.lock", "/x/a-0123456789abcde.lock", "/x/-0123456789abcdef.lock", "/x/a-0123456789abcdeg.lock", ""} {
		if got, err := place.OfLock(path); err == nil {
			t.Errorf("%q is the lock of %+v", path, got)
		}
	}
}

// The directory is private, or it is none.
func TestDirectory(t *testing.T) {
	base := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", base)
	directory, err := place.Directory()
	must(t, err)
	if info, err := os.Stat(directory); err != nil || info.Mode() != os.ModeDir|0o700 || directory != filepath.Join(base, "nearcall-resident") {
		t.Errorf("%s: %v, %v", directory, info, err)
	}
	must(t, os.Chmod(directory, 0o750))
	if _, err := place.Directory(); !errors.Is(err, place.ErrUnsafe) {
		t.Errorf("others may read it: %v", err)
	}
	must(t, errors.Join(os.Chmod(directory, 0o700), os.Chown(directory, 65534, -1)))
	if _, err := place.Directory(); !errors.Is(err, place.ErrUnsafe) {
		t.Errorf("it is another user's: %v", err)
	}
	must(t, errors.Join(os.Remove(directory), os.Symlink(t.TempDir(), directory)))
	if _, err := place.Directory(); !errors.Is(err, place.ErrUnsafe) {
		t.Errorf("it is a link: %v", err)
	}
	must(t, errors.Join(os.Remove(directory), os.WriteFile(directory, nil, 0o600)))
	if _, err := place.Directory(); !errors.Is(err, place.ErrUnsafe) {
		t.Errorf("it is a file: %v", err)
	}
	for _, unusable := range []string{"", "relative", filepath.Join(base, "missing")} {
		t.Setenv("XDG_RUNTIME_DIR", unusable)
		if got, err := place.Directory(); err != nil || !strings.HasPrefix(got, "/tmp/nearcall-resident-") {
			t.Errorf("with %q it is %s, %v", unusable, got, err)
		}
	}
}

// asNobody is for what root may do and others may not. The thread ends with it.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	const nobody = 65534
	done := make(chan syscall.Errno)
	go func() {
		runtime.LockOSThread()
		_, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody)
		if errno == 0 {
			f()
		}
		done <- errno
	}()
	if errno := <-done; errno != 0 {
		t.Fatal(errno)
	}
}

// Where a launcher could not make the directory it goes to /tmp; so does who lists.
func TestDirectoriesWhereLaunchersLook(t *testing.T) {
	base := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", base)
	must(t, os.Chmod(filepath.Dir(base), 0o755))
	expect := func(want bool) {
		t.Helper()
		made, err := place.Directory()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = os.Remove(made) }() // where somebody is resident it stays
		listed, err := place.Directories()
		if err != nil || len(listed) != 1 || listed[0] != made || !place.IsFirst(made) || strings.HasPrefix(made, base) != want {
			t.Errorf("launchers make %s, and listed are %v, %v", made, listed, err)
		}
	}
	expect(true)
	must(t, os.Chown(base, 65534, -1))
	expect(false)
	must(t, os.Chmod(base, 0o500))
	asNobody(t, func() { expect(false) })
	must(t, os.Chmod(base, 0o700))
	asNobody(t, func() { expect(true) })
}

// One holds the lock at a time, also when its file is removed by one that leaves.
func TestLock(t *testing.T) {
	p := place.Place{Directory: t.TempDir(), Program: "p", Identity: "0123456789abcdef"}
	held, err := p.TakeLock()
	must(t, err)
	const others = 10
	taken := make(chan *place.Lock)
	for range others {
		go func() {
			l, err := p.TakeLock()
			if err != nil {
				t.Error(err)
			}
			taken <- l
		}()
	}
	select {
	case <-taken:
		t.Error("two hold the lock")
	case <-time.After(20 * time.Millisecond):
	}
	must(t, errors.Join(held.Remove(), held.Release()))
	for range others {
		l := <-taken
		if there, err := os.Stat(p.Lock()); err != nil || !same(l.File(), there) {
			t.Errorf("the lock that is held is not the file that is there: %v", err)
		}
		select {
		case <-taken:
			t.Error("two hold the lock")
		default:
		}
		must(t, l.Release())
	}
}

func same(file *os.File, there os.FileInfo) bool {
	info, err := file.Stat()
	return err == nil && os.SameFile(info, there)
}
