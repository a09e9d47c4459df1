package channel

import "testing"

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
