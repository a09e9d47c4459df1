package channel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A standing is what the kernel goes by when a process asks it for something, as far as
// it tells that to others. A run is to be allowed what its caller is allowed, no more and
// no less.
type standing []property

type property struct{ name, value string }

// statusFields are lines of /proc/PID/status.
var statusFields = []string{
	"Uid", "Gid", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters",
	"Speculation_Store_Bypass", "SpeculationIndirectBranch", "Cpus_allowed", "Mems_allowed",
	// A tracer decides on each system call, and sees none of those of a resident.
	"TracerPid",
}

// none is in place of what the kernel does not have.
const none = "none"

// standingOf reads that of the process whose directory of /proc this is. What this kernel
// does not have, as a standing tells that was read before, is not asked for again.
func standingOf(directory, pid int, before standing) (standing, error) {
	s, err := statusOf(directory)
	if err != nil {
		return nil, err
	}
	for _, file := range []struct{ path, name string }{{"loginuid", "login user"}, {"attr/current", "security label"}} {
		value, err := none, error(nil)
		if before.value(file.name) != none {
			value, err = readAt(directory, file.path)
		}
		// A kernel without what the file tells of has no such file, or no value in it.
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
			value, err = none, nil
		}
		if err != nil {
			return nil, err
		}
		s = append(s, property{file.name, strings.TrimSuffix(value, "\n")})
	}
	groups, err := readAt(directory, "cgroup")
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, err
	}
	for line := range strings.Lines(groups) {
		s = append(s, property{"control group", comparedGroup(strings.TrimSuffix(line, "\n"))})
	}
	scheduling, err := schedulingOf(pid)
	return append(s, scheduling...), err
}

func statusOf(directory int) (standing, error) {
	text, err := readAt(directory, "status")
	if err != nil {
		return nil, err
	}
	var s standing
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		if slices.Contains(statusFields, name) {
			s = append(s, property{name, strings.TrimSpace(value)})
		}
	}
	return s, nil
}

func schedulingOf(pid int) (standing, error) {
	is, err := unix.SchedGetAttr(pid, 0)
	if err != nil {
		return nil, os.NewSyscallError("sched_getattr", err)
	}
	priority, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, ioprioWhoProcess, uintptr(pid), 0)
	if errno != 0 && errno != unix.ENOSYS {
		return nil, os.NewSyscallError("ioprio_get", errno)
	}
	return standing{
		{"scheduling (nice)", fmt.Sprint(is.Policy, is.Flags, is.Nice, is.Priority)},
		{"I/O priority", fmt.Sprint(priority)},
	}, nil
}

const ioprioWhoProcess = 1

// openProcess returns a process's directory in /proc, which stays its own when the number
// is another process's.
func openProcess(process string) (int, error) {
	path := "/proc/" + process
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

func readAt(directory int, path string) (string, error) {
	fd, err := unix.Openat(directory, path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	var text strings.Builder
	var b [usualBytes]byte
	if _, err := io.CopyBuffer(&text, descriptor(fd), b[:]); err != nil {
		return "", &os.PathError{Op: "read", Path: path, Err: err}
	}
	return text.String(), nil
}

// usualBytes are more than such a file has, but for users of many groups.
const usualBytes = 4096

// A descriptor is read without what package os does for files that may have to be waited for.
type descriptor int

func (d descriptor) Read(b []byte) (int, error) {
	n, err := unix.Read(int(d), b)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
}

// sessionUnits are the beginnings of the names of parts of a user's slice that part
// accounts and allow the same.
var sessionUnits = []string{"session-", "app-", "app.slice", "session.slice", "vte-spawn-", "tmux-spawn-", "init.scope"}

// comparedGroup returns what of a line of /proc/PID/cgroup tells what is allowed in the
// group. Of logins, terminals and applications it is their user's slice, for these are as
// many as windows are open.
func comparedGroup(line string) string {
	before, rest, found := strings.Cut(line, "/user-")
	user, units, _ := strings.Cut(rest, "/")
	number, isSlice := strings.CutSuffix(user, ".slice")
	if !found || !isSlice || !isNumber(number) {
		return line
	}
	for unit := range strings.SplitSeq(units, "/") {
		if unit != "" && !isSessionUnit(unit) {
			return line
		}
	}
	return before + "/user-" + user
}

func isSessionUnit(unit string) bool {
	if slices.ContainsFunc(sessionUnits, func(known string) bool { return strings.HasPrefix(unit, known) }) {
		return true
	}
	number, isManager := strings.CutPrefix(unit, "user@")
	number, isService := strings.CutSuffix(number, ".service")
	return isManager && isService && isNumber(number)
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func (s standing) value(name string) string {
	for _, p := range s {
		if p.name == name {
			return p.value
		}
	}
	return ""
}

// difference returns the name of the first that is not the same, or "".
func (s standing) difference(other standing) string {
	for i, own := range s {
		if i >= len(other) || other[i] != own {
			return own.name
		}
	}
	if len(other) > len(s) {
		return other[len(s)].name
	}
	return ""
}

// restriction says why nobody can know what such a process is allowed, or "". What
// restricts by these cannot be compared: of filters there is only a number to be seen, of
// Landlock nothing, and it needs no_new_privs where there is no privilege.
func (s standing) restriction() string {
	if value := s.value("NoNewPrivs"); value != "" && value != "0" {
		return "the caller may be in a sandbox: it has no_new_privs"
	}
	if value := s.value("Seccomp"); value != "" && value != "0" && !s.hasFiltersOfFirst() {
		return "the caller may be in a sandbox: it has seccomp filters of its own"
	}
	return ""
}

// hasFiltersOfFirst is for a container that has filters as a whole: nobody in it has fewer.
func (s standing) hasFiltersOfFirst() bool {
	directory, err := openProcess("1")
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(directory) }()
	first, err := statusOf(directory)
	count := s.value("Seccomp_filters")
	return err == nil && count != "" && count == first.value("Seccomp_filters") && s.value("Seccomp") == first.value("Seccomp")
}

// isThere tells whether the process that made the connection has not ended: its number is
// not another's. Before Linux 6.5 nobody can tell.
func (c *Conn) isThere() bool {
	there := false
	_ = c.Control(func(fd int) error {
		process, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		if err != nil {
			there = err == unix.ENOPROTOOPT
			return nil
		}
		poll := []unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 0)
		there = n == 0 && err == nil
		return unix.Close(process)
	})
	return there
}

// keyringUnknown is in place of a session keyring that cannot be looked into.
const keyringUnknown = ^uint32(0)

// Keyring returns this process's session keyring; 0: it has nothing but its user's own.
func Keyring() uint32 {
	// Filters may end who asks; where there are some, nobody asks.
	if mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0); err != nil || mode != 0 {
		return 0
	}
	session, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
	if err != nil {
		if err == unix.ENOSYS {
			return 0
		}
		return keyringUnknown
	}
	var keys [8]byte
	n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, session, keys[:], 0)
	if err != nil {
		return keyringUnknown
	}
	if n == 4 {
		user, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, false)
		if err == nil && uint32(user) == binary.NativeEndian.Uint32(keys[:]) {
			return 0
		}
	}
	if n == 0 {
		return 0
	}
	return uint32(session)
}
