package resident_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A script that env starts runs in its caller's environment for Python, and not in the
// resident's.
func TestInterpreterOfEnv(t *testing.T) {
	for _, first := range []string{"#!/usr/bin/env python3\n", "#!/usr/bin/env -S python3 -s\n"} {
		p := newPlace(t, kinds()[len(kinds())-1])
		script, err := os.ReadFile(p.program)
		must(t, err)
		_, rest, _ := bytes.Cut(script, []byte("\n"))
		must(t, os.WriteFile(p.program, append([]byte(first), rest...), 0o755))
		one, other := p.environmentForPython("one"), p.environmentForPython("other")
		for i, c := range []struct {
			path  string
			plain bool
		}{{path: one}, {path: one + ":/nowhere"}, {path: other, plain: true}, {path: "/nowhere:" + one}} {
			command := p.command("interpreter")
			command.Env = append(command.Env, "PATH="+c.path+":/usr/bin:/bin", "NEARCALL_RUN_DEBUG=1")
			r := finish(t, command)
			if want := strings.TrimPrefix(strings.TrimSuffix(c.path, ":/nowhere"), "/nowhere:") + "\n"; r.output != want || r.code != 0 {
				t.Errorf("run %d: %s, not output %q", i, r, want)
			}
			if strings.Contains(r.errors, "runs plainly: env would find") != c.plain {
				t.Errorf("run %d: %s, plainly: %t", i, r, c.plain)
			}
		}
	}
}

// environmentForPython returns the folder of commands of a virtual environment with the
// packages of the one that the tests have.
func (p *place) environmentForPython(name string) string {
	p.t.Helper()
	from, folder := filepath.Join(root, "build/venv"), p.path(name)
	must(p.t, os.Mkdir(folder, 0o755))
	for _, part := range []string{"lib", "pyvenv.cfg"} {
		must(p.t, os.Symlink(filepath.Join(from, part), filepath.Join(folder, part)))
	}
	commands := filepath.Join(folder, "bin")
	must(p.t, os.Mkdir(commands, 0o755))
	interpreter, err := filepath.EvalSymlinks(filepath.Join(from, "bin/python"))
	must(p.t, err)
	must(p.t, os.Symlink(interpreter, filepath.Join(commands, "python3")))
	return commands
}
