package resident_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nearcall/nearcall/tests/processes"
)

const nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups "

// Another user has a resident of his own, and does not get at that of anybody else.
func TestAnotherUser(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		mine := p.report()
		theirs := p.path("theirs")
		must(t, os.Mkdir(theirs, 0o700))
		must(t, os.Chown(theirs, 65534, 65534))
		r := p.shell(`cd / && ` + nobody + `env XDG_RUNTIME_DIR="$HOME/theirs" $run report 8 </dev/null; echo $?`)
		s := parse(t, r.output, 0)
		if !strings.HasSuffix(r.output, "\n8\n") || s.Resident == 0 || s.Resident == mine.Resident {
			t.Errorf("%+v, and mine is %d: %s", s, mine.Resident, r)
		}
		// What XDG_RUNTIME_DIR says is not his own: he has one elsewhere.
		r = p.shell(`cd / && ` + nobody + `$run report 8 </dev/null; echo $?`)
		elsewhere := parse(t, r.output, 0)
		if elsewhere.Resident == 0 || elsewhere.Resident == mine.Resident || elsewhere.Resident == s.Resident {
			t.Errorf("%+v", elsewhere)
		}
		sockets, _ := filepath.Glob(filepath.Join(theirs, "nearcall-resident", "*.sock"))
		if len(sockets) != 1 {
			t.Fatalf("his sockets are %q", sockets)
		}
		if a, err := ask(sockets[0], kindStatus); err == nil {
			t.Errorf("his resident answered another user: %+v", a)
		}
		for _, pid := range []int{s.Resident, elsewhere.Resident} {
			must(t, processes.Run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "kill", itoa(pid)))
			p.waitGone(pid)
		}
	})
}

// A directory that others may use makes nothing resident.
func TestDirectoryThatIsNotPrivate(t *testing.T) {
	p := newPlace(t, kinds()[0])
	must(t, os.Mkdir(p.residents(), 0o755))
	must(t, os.Chmod(p.residents(), 0o755))
	if s := p.report(); s.Resident != 0 {
		t.Errorf("%+v", s)
	}
	must(t, os.Remove(p.residents()))
	must(t, os.Symlink(p.dir, p.residents()))
	if s := p.report(); s.Resident != 0 {
		t.Errorf("a symbolic link to a directory for others: %+v", s)
	}
}

// Callers with another view of the system are run plainly, with their own view.
func TestOtherNamespaces(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		mine := p.report()
		for _, unshare := range []string{"-n", "-m", "-u", "-i", "-p --fork", "-U -r"} {
			r := p.shell(`unshare ` + unshare + ` $run report 6 </dev/null; echo $?`)
			if s := parse(t, r.output, 0); s.Resident != 0 || !strings.HasSuffix(r.output, "\n6\n") {
				t.Errorf("unshare %s: %s", unshare, r)
			}
		}
		r := p.shell(`setpriv --groups 1,2,3 $run report 6 </dev/null`)
		if s := parse(t, r.output, 0); s.Resident != 0 {
			t.Errorf("with other groups: %s", r)
		}
		if s := p.report(); s.Resident != mine.Resident {
			t.Errorf("the resident is %d, and it was %d", s.Resident, mine.Resident)
		}
	})
}

// Variables that are read once make a run plain where they differ.
func TestVariablesReadOnce(t *testing.T) {
	variables := map[string]string{"pool": "GOMEMLIMIT=1GiB", "serial": "GOGC=50", "concurrent": "GODEBUG=madvdontneed=1", "perl": "PERLIO=stdio", "python": "PYTHONHASHSEED=7"}
	eachKind(t, all, func(t *testing.T, p *place) {
		mine := p.report()
		for _, variable := range []string{"TZ=Asia/Tokyo", "LD_LIBRARY_PATH=/nowhere", variables[p.kind.name]} {
			r := p.shell(variable + ` $run report 6 </dev/null`)
			if s := parse(t, r.output, 0); s.Resident != 0 || r.code != 6 {
				t.Errorf("%s: %s", variable, r)
			}
		}
		if s := p.report(); s.Resident != mine.Resident || s.Resident == 0 {
			t.Errorf("the resident is %d, and it was %d", s.Resident, mine.Resident)
		}
	})
}

// A run without privilege does not get more than its own limits allow, nor less.
func TestLimitsWithoutPrivilege(t *testing.T) {
	eachKind(t, own, func(t *testing.T, p *place) {
		must(t, os.Chown(p.runtime(), 65534, 65534))
		script := `cd /; (ulimit -n 99; ` + nobody + `$run limits files); ` + nobody + `$run limits files; ` + nobody + `sh -c 'ulimit -n 55; exec "$0" "$@"' $run limits files; ` + nobody + `$run report 0 </dev/null`
		got, plain := p.shell(script), p.shell(script, "NEARCALL_NO_RESIDENT=1")
		if strip(got.output) != strip(plain.output) {
			t.Errorf("%s, and plainly %s", got, plain)
		}
		// What is there yet does not answer another user.
		for _, pid := range p.processes() {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	})
}
