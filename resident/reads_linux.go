package resident

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/resident/internal/inheritance"
)

// reads are what a program reads before its runs although each caller has its own. What
// it reads of the environment is in the guard's names.
type reads struct {
	directory string // where callers must be; "" means anywhere
	named     string // its name as os.Getwd returns it
	is        unix.Stat_t
	input     bool
}

func newReads(o Options) (reads, error) {
	r := reads{input: o.EarlyInput}
	if !o.SameDirectory {
		return r, nil
	}
	var err error
	if r.directory, err = here(); err != nil {
		return r, err
	}
	if err := unix.Stat(r.directory, &r.is); err != nil {
		return r, &os.PathError{Op: "stat", Path: r.directory, Err: err}
	}
	r.named, err = os.Getwd()
	return r, err
}

// here returns this process's directory under the name that the kernel gives it, as
// launchers do. The name that os.Getwd returns is the one by which a shell came there.
func here() (string, error) {
	directory, err := unix.Getwd()
	return directory, os.NewSyscallError("getcwd", err)
}

// isNamed reports whether os.Getwd returns the same in this directory with a caller's
// variables as it has returned here.
func (r reads) isNamed(variables []string) bool {
	var is unix.Stat_t
	name, _ := lookup(variables, "PWD")
	if !strings.HasPrefix(name, "/") || unix.Stat(name, &is) != nil || is.Dev != r.is.Dev || is.Ino != r.is.Ino {
		name = r.directory
	}
	return name == r.named
}

// refusal returns why a caller must run the program itself, or "".
func (r reads) refusal(p *passed) string {
	var directory, input unix.Stat_t
	if r.directory != "" && (p.Directory != r.directory || unix.Fstat(p.directory(), &directory) != nil ||
		directory.Dev != r.is.Dev || directory.Ino != r.is.Ino || !r.isNamed(p.Variables)) {
		return "the program reads its directory before the run, and the resident was started in another one"
	}
	if r.input && (unix.Fstat(p.descriptors[0], &input) != nil || input.Mode&unix.S_IFMT != unix.S_IFCHR || input.Rdev != unix.Mkdev(1, 3)) {
		return "the program looks at its standard input before the run, and there it was /dev/null"
	}
	return ""
}

// startInDirectory starts this program once more in the directory of its launcher, if
// that is another one: packages have already looked at the present one. It returns only
// if there is nothing to do, or if it has failed.
func startInDirectory(o Options) error {
	directory := os.Getenv(inheritance.Directory)
	if !o.SameDirectory || directory == "" {
		return nil
	}
	if now, err := here(); err == nil && now == directory {
		return nil
	}
	if err := os.Chdir(directory); err != nil {
		return err
	}
	text, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return err
	}
	if now, err := here(); err != nil || now != directory {
		return &os.PathError{Op: "chdir", Path: directory, Err: unix.ENOENT}
	}
	if _, err := unix.FcntlInt(inheritance.Listener, unix.F_SETFD, 0); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	return &os.PathError{Op: "execve", Path: os.Args[0], Err: unix.Exec(os.Args[0], os.Args, textLines(text))}
}
