package resident_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// variableRestriction makes this test's program one that is restricted so and becomes its
// arguments.
const variableRestriction = "TEST_RESTRICTION"

// restrictions are what callers are restricted by that no command at hand does.
var restrictions = map[string]func() error{
	"no_new_privs": func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) },
	"landlock":     restrictWrites,
	"landlock with no_new_privs": func() error {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
		return restrictWrites()
	},
	"memory":       func() error { return unix.Prctl(setMemoryDenyWriteExecute, refuseExecGain, 0, 0, 0) },
	"seccomp":      filterCalls,
	"keyring":      joinKeyring,
	"login user":   func() error { return os.WriteFile("/proc/thread-self/loginuid", []byte("12345"), 0) },
	"capabilities": func() error { return unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_NET_RAW, 0, 0, 0) },
}

const (
	setMemoryDenyWriteExecute = 65
	getMemoryDenyWriteExecute = 66
	refuseExecGain            = 1
)

// restricted becomes the program that its arguments name.
func restricted(how string) int {
	runtime.LockOSThread()
	if err := restrictions[how](); err != nil {
		fmt.Fprintln(os.Stderr, how, err)
		return exitUnrestricted
	}
	_ = os.Unsetenv(variableRestriction)
	fmt.Fprintln(os.Stderr, syscall.Exec(os.Args[1], os.Args[1:], os.Environ()))
	return exitUnrestricted
}

// exitUnrestricted is none of the program's own.
const exitUnrestricted = 93

// restrictWrites forbids to make and to write files.
func restrictWrites() error {
	access := uint64(unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_REG)
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&access)), unsafe.Sizeof(access), 0)
	if errno == 0 {
		_, _, errno = unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0)
	}
	if errno != 0 {
		return os.NewSyscallError("landlock", errno)
	}
	return nil
}

// filterCalls has a filter that allows everything.
func filterCalls() error {
	allow := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}
	program := unix.SockFprog{Len: uint16(len(allow)), Filter: &allow[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}

// joinKeyring has a session keyring with a key.
func joinKeyring() error {
	if _, _, errno := unix.RawSyscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0); errno != 0 {
		return os.NewSyscallError("keyctl", errno)
	}
	_, err := unix.AddKey("user", "nearcall-test", []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING)
	return err
}

// A standing is what a caller has that a resident has not: by its own, or by a command before it.
type standing struct {
	name    string
	before  []string // the command
	own     string   // of restrictions
	never   bool     // starts no resident either
	because string
}

func standings() []standing {
	all := []standing{
		{name: "no_new_privs", before: []string{"setpriv", "--no-new-privs"}, never: true, because: "no_new_privs"},
		{name: "no bounding set", before: []string{"setpriv", "--bounding-set=-all"}, because: "Cap"},
		{name: "a smaller bounding set", own: "capabilities", because: "Cap"},
		{name: "inheritable capabilities", before: []string{"setpriv", "--inh-caps=+net_raw"}, because: "CapInh"},
		{name: "securebits", before: []string{"setpriv", "--securebits=+no_setuid_fixup"}, never: true, because: "securebits"},
		{name: "Landlock", own: "landlock", never: true, because: "sandbox"},
		{name: "Landlock with no_new_privs", own: "landlock with no_new_privs", never: true, because: "sandbox"},
		{name: "seccomp", own: "seccomp", never: true, because: "Seccomp"},
		{name: "session keyring", own: "keyring", because: "keyring"},
		{name: "login user", own: "login user", because: "login user"},
		{name: "personality", before: []string{"setarch", "--addr-no-randomize"}, never: true, because: "personality"},
		{name: "a tracer", before: []string{"strace", "--output=/dev/null"}, never: true, because: "TracerPid"},
		{name: "real group", before: []string{"setpriv", "--rgid=12345", "--keep-groups"}, never: true, because: "other rights"},
		{name: "nice", before: []string{"nice", "-n", "3"}, because: "nice"},
		{name: "scheduling", before: []string{"chrt", "--batch", "0"}, because: "scheduling"},
		{name: "I/O priority", before: []string{"ionice", "-c", "3"}, because: "I/O priority"},
		{name: "CPU affinity", before: []string{"taskset", "-c", "0"}, because: "Cpus_allowed"},
		{name: "control group namespace", before: []string{"unshare", "--cgroup"}, because: "namespace"},
		{name: "time namespace", before: []string{"unshare", "--time"}, because: "namespace"},
	}
	if _, err := unix.PrctlRetInt(getMemoryDenyWriteExecute, 0, 0, 0, 0); err == nil { // since Linux 6.3
		all = append(all, standing{name: "memory that is written and executed", own: "memory", never: true, because: "PR_SET_MDWE"})
	}
	return all
}

// command is a run by a caller that is restricted so.
func (s standing) command(p *place, arguments ...string) *exec.Cmd {
	command := p.command(arguments...)
	command.Env = append(command.Env, "NEARCALL_RUN_DEBUG=1")
	before := s.before
	if s.own != "" {
		before = []string{os.Args[0]}
		command.Env = append(command.Env, variableRestriction+"="+s.own)
	}
	command.Args = append(before[:len(before):len(before)], command.Args...)
	path, err := exec.LookPath(before[0])
	must(p.t, err)
	command.Path = path
	return command
}

// isResident tells whether a run that reports had a resident.
func isResident(t *testing.T, r result) bool {
	t.Helper()
	return parse(t, r.output, 0).Resident != 0
}

// A caller that is allowed less than the resident, or something else, gets a plain run. So does everybody
// where the resident was started by such a caller.
func TestOtherStanding(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		if !isResident(t, p.run("report", "0")) {
			t.Fatal("nothing is resident")
		}
		for _, s := range standings() {
			t.Run(s.name, func(t *testing.T) {
				if s.name == "CPU affinity" && runtime.NumCPU() == 1 {
					t.Skip("there is one CPU")
				}
				r := finish(t, s.command(p, "report", "0"))
				if r.code != 0 || isResident(t, r) || !strings.Contains(r.errors, s.because) {
					t.Errorf("%s, and not plainly because of %s", r, s.because)
				}
			})
		}
		if !isResident(t, p.run("report", "0")) {
			t.Error("the resident has gone")
		}
	})
}

// No resident that nobody may use is started, and nobody is resident in another's stead.
func TestStartedByOtherStanding(t *testing.T) {
	for _, s := range standings() {
		t.Run(s.name, func(t *testing.T) {
			if s.name == "CPU affinity" && runtime.NumCPU() == 1 {
				t.Skip("there is one CPU")
			}
			p := newPlace(t, kinds()[0])
			if r := finish(t, s.command(p, "report", "0")); r.code != 0 || isResident(t, r) == s.never {
				t.Errorf("%s: resident %t", r, !s.never)
			}
			if r := p.run("report", "0"); isResident(t, r) != s.never {
				t.Errorf("the next run: %s, resident %t", r, s.never)
			}
		})
	}
}

// What a sandbox forbids a run is not done by a resident.
func TestSandbox(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		p.run("report", "0")
		for _, how := range []string{"landlock", "landlock with no_new_privs"} {
			r := finish(t, standing{own: how}.command(p, "ledger", p.path("written"), "key", "0"))
			if _, err := os.Stat(p.path("written")); err == nil || r.code == 0 {
				t.Errorf("a file was written in a sandbox: %s", r)
			}
		}
	})
}
