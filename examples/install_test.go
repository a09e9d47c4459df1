package examples_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The commands of docs/guides/install.md, by a user with a home and a checkout of his own: what
// other tests use of this one is not built again under them. Each paragraph of commands is typed
// into one shell, in the checkout.
func TestInstallGuide(t *testing.T) {
	home, tree := t.TempDir(), t.TempDir()
	copyTree(t, tree, ".")
	text, err := os.ReadFile("../docs/guides/install.md")
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	for _, paragraph := range strings.Split(string(text), "\n\n") {
		var typed []string
		for _, line := range strings.Split(paragraph, "\n") {
			if command, found := strings.CutPrefix(line, "    $ "); found {
				typed = append(typed, command)
			}
		}
		if len(typed) > 0 {
			said += output(t, append(caches(t), "HOME="+home), "bash", "-e", "-c", "cd "+tree+"\n"+strings.Join(typed, "\n"))
		}
	}
	for _, want := range []string{
		filepath.Join(home, "venv/lib"), filepath.Join(home, "packages/nearcall/__init__.py"), "v0.",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not print %q:\n%s", want, said)
		}
	}
	// What was installed calls.
	_, socket := helloServer(t)
	if got := output(t, nil, filepath.Join(home, "client"), "unix:"+socket); !strings.Contains(got, "greet: Hello, World!") {
		t.Errorf("the installed library's client prints %q", got)
	}
	installCompilesNothing(t, tree)
	installMakesAnew(t, tree)
}

// Who installs what was built, as root does for somebody else, compiles nothing, and so leaves nothing
// of his own in build/.
func installCompilesNothing(t *testing.T, tree string) {
	t.Helper()
	failing := t.TempDir()
	for _, compiler := range []string{"cc", "go", "musl-gcc"} {
		script := "#!/bin/sh\necho \"install runs " + compiler + "\" >&2; exit 1\n"
		if err := os.WriteFile(filepath.Join(failing, compiler), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	output(t, []string{"PATH=" + failing + ":" + os.Getenv("PATH")}, "make", "-C", tree, "install", "PREFIX="+t.TempDir())
}

// What make check has built without what debuggers read is not what is installed.
func installMakesAnew(t *testing.T, tree string) {
	t.Helper()
	prefix := t.TempDir()
	output(t, []string{"GOFLAGS=-buildvcs=false -ldflags=-w"}, "make", "-C", tree, "build-programs")
	output(t, nil, "make", "-C", tree, "install", "PREFIX="+prefix)
	if sections := output(t, nil, "readelf", "-SW", prefix+"/bin/nearcall"); !strings.Contains(sections, ".debug_info") && !strings.Contains(sections, ".zdebug_info") {
		t.Errorf("the command that is installed has no debugging information:\n%s", sections)
	}
}

// Who builds the Perl binding in its own folder leaves nothing that git sees, and nothing at all
// after realclean; and what was built there is not taken along elsewhere.
func TestPerlBuiltBesideItsSources(t *testing.T) {
	tree, home := t.TempDir(), t.TempDir()
	copyTree(t, tree, "bindings/perl libnearcall .gitignore LICENSE tools/build-perl")
	run := func(commands string) string {
		return output(t, []string{"HOME=" + home}, "bash", "-e", "-c", "cd "+tree+"\n"+commands)
	}
	run("git init -q && git add -A")
	run("cd bindings/perl && perl Makefile.PL INSTALL_BASE=" + home + " OPTIMIZE=-O0 && make && make install")
	run("perl -I" + home + "/lib/perl5 -MNearcall -e 1")
	if left := run("git ls-files --others --exclude-standard"); left != "" {
		t.Errorf("git sees what was built:\n%s", left)
	}
	run("sed -i 's/^make$/exit/' tools/build-perl && tools/build-perl")
	if taken := run("find build/perl -name '*.o' -o -name blib"); taken != "" {
		t.Errorf("build-perl takes along what was built:\n%s", taken)
	}
	run("rm -r build && make -C bindings/perl realclean")
	if left := run("git ls-files --others"); left != "" {
		t.Errorf("realclean leaves:\n%s", left)
	}
}

// copyTree copies what git knows of these folders and files of the checkout.
func copyTree(t *testing.T, to, paths string) {
	t.Helper()
	output(t, nil, "bash", "-e", "-o", "pipefail", "-c", "cd .. && git ls-files -z "+paths+" | xargs -0 cp --parents -t "+to)
}

// caches keeps those of Go and pip where they are, for a user whose home is another.
func caches(t *testing.T) []string {
	t.Helper()
	folders := strings.Fields(output(t, nil, "go", "env", "GOCACHE", "GOMODCACHE"))
	python := strings.TrimSpace(output(t, nil, "../build/venv/bin/pip", "cache", "dir"))
	return []string{"GOCACHE=" + folders[0], "GOMODCACHE=" + folders[1], "PIP_CACHE_DIR=" + python}
}
