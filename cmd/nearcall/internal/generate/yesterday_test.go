package generate_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nearcall/nearcall/tests/programs/demo"
)

// place copies what was generated and written for the version before to where it is built.
func place(t *testing.T, directory string, files map[string]string) string {
	t.Helper()
	for from, to := range files {
		path := filepath.Join(directory, to)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		copyFile(t, filepath.Join("testdata", "yesterday", from), path)
	}
	return directory
}

// Code that the version before has generated is built with today's libraries, and calls
// today's server: docs/compatibility.md promises it.
func TestYesterday(t *testing.T) {
	address, _ := serve(t, demo.Register)
	t.Run("C", func(t *testing.T) {
		directory := place(t, t.TempDir(), map[string]string{"stub.h.txt": "demo.h", "main.c.txt": "main.c"})
		binary := filepath.Join(directory, "demo")
		output(t, nil, "gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-I"+filepath.Join(root(t), "libnearcall", "include"), "-I"+directory,
			"-o", binary, filepath.Join(directory, "main.c"), built(t, "lib/libnearcall.a", "build-c"))
		program(t, nil, binary, address)
	})
	t.Run("Perl", func(t *testing.T) {
		blib := filepath.Join(root(t), "build", "perl", "blib")
		built(t, "perl/blib/arch/auto/Nearcall/Nearcall.so", "build-perl")
		directory := place(t, t.TempDir(), map[string]string{"stub.pm.txt": "Demo.pm", "main.pl.txt": "main.pl"})
		program(t, nil, "/usr/bin/perl", "-w", "-I"+directory, "-I"+blib+"/lib", "-I"+blib+"/arch", filepath.Join(directory, "main.pl"), address)
	})
	t.Run("Python", func(t *testing.T) {
		python := built(t, "venv/bin/python", "build-python")
		directory := place(t, t.TempDir(), map[string]string{"stub.py.txt": "demo.py", "main.py.txt": "main.py"})
		program(t, []string{"PYTHONPATH=" + directory, "PYTHONDONTWRITEBYTECODE=1"}, python, filepath.Join(directory, "main.py"), address)
	})
	t.Run("Go", func(t *testing.T) {
		directory := place(t, t.TempDir(), map[string]string{"stub.go.txt": "demo/demo.go", "main.go.txt": "main.go"})
		program(t, goModule(t, directory), "go", "run", "-C", directory, ".", address)
	})
}
