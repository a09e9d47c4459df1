package channel

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Windows and logins of a user are alike; what was started with limits of its own is not.
func TestComparedGroup(t *testing.T) {
	const slice = "0::/user.slice/user-1000.slice"
	for line, want := range map[string]string{
		"0::/":                        "0::/",
		slice:                         slice,
		slice + "/session-3.scope":    slice,
		slice + "/user@1000.service":  slice,
		slice + "/user@.service":      "",
		slice + "/user@1000.services": "",
		slice + "/user@1000.service/app.slice/app-org.gnome.Terminal.slice/vte-spawn-1.scope": slice,
		slice + "/user@1000.service/app.slice/run-r1.scope":                                   "",
		slice + "/user@1000.service/app.slice/own.service":                                    "",
		"0::/system.slice/cron.service":                                                       "",
		"0::/user.slice/user-.slice/session-3.scope":                                          "",
		"0::/user.slice/user-1000.slices/session-3.scope":                                     "",
	} {
		if want == "" {
			want = line
		}
		if got := comparedGroup(line); got != want {
			t.Errorf("of %s it is %s, and not %s", line, got, want)
		}
	}
}

// More filters than the first process has, or no number of them, may be others.
func TestRestriction(t *testing.T) {
	for name, c := range map[string]struct {
		is         standing
		restricted bool
	}{
		"nothing":       {standing{{"NoNewPrivs", "0"}, {"Seccomp", "0"}, {"Seccomp_filters", "0"}}, false},
		"no_new_privs":  {standing{{"NoNewPrivs", "1"}, {"Seccomp", "0"}}, true},
		"filters":       {standing{{"NoNewPrivs", "0"}, {"Seccomp", "2"}, {"Seccomp_filters", "77"}}, true},
		"without count": {standing{{"NoNewPrivs", "0"}, {"Seccomp", "2"}}, true},
	} {
		if why := c.is.restriction(); (why != "") != c.restricted {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// compared are what a process's directory in /proc says of it, each with its own value.
var compared = map[string]string{
	"Uid": "1000\t1000\t1000\t1000", "Gid": "1000\t1000\t1000\t1000",
	"CapInh": "01", "CapPrm": "02", "CapEff": "03", "CapBnd": "04", "CapAmb": "05",
	"NoNewPrivs": "0", "Seccomp": "0", "Seccomp_filters": "0", "TracerPid": "0",
	"Speculation_Store_Bypass": "vulnerable", "SpeculationIndirectBranch": "always enabled", "Cpus_allowed": "3", "Mems_allowed": "1",
	"login user": "1000", "security label": "unconfined", "control group": "0::/own",
}

// told is the standing of a process for which such files say that, except for one property.
func told(t *testing.T, except, value string) standing {
	t.Helper()
	files := map[string]string{"login user": "loginuid", "security label": "attr/current", "control group": "cgroup"}
	folder := t.TempDir()
	var status strings.Builder
	for _, name := range slices.Sorted(maps.Keys(compared)) {
		is := compared[name]
		if name == except {
			is = value
		}
		file, own := files[name]
		if !own {
			status.WriteString(name + ":\t" + is + "\n")
			continue
		}
		path := filepath.Join(folder, file)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(is+"\n"), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(folder, "status"), []byte(status.String()), 0o600))
	directory, err := unix.Open(folder, unix.O_PATH|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(directory)
	s, err := standingOf(directory, 0, nil)
	must(t, err)
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Whatever is compared makes a difference by itself.
func TestEachPropertyIsCompared(t *testing.T) {
	own := told(t, "", "")
	if name := own.difference(told(t, "", "")); name != "" {
		t.Errorf("of the same %s differs", name)
	}
	for name := range compared {
		if got := own.difference(told(t, name, "7")); got != name {
			t.Errorf("where %s differs, %q does", name, got)
		}
	}
}
