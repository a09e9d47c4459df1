package command_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const root = "../../../.."

func TestBuild(t *testing.T) {
	file := filepath.Join(t.TempDir(), "libhello.so")
	t.Chdir(root)
	got := nearcall(t, "build", "--json", "-o", file, "./examples/hello/library").expect(t, 0)
	var made struct {
		File, Address string
		Bytes         int64
		Exports       []string
	}
	must(t, json.Unmarshal([]byte(got.out), &made))
	if made.File != file || made.Address != "embed:"+file || made.Bytes == 0 || !slices.Contains(made.Exports, "nearcall_embed_library") {
		t.Errorf("got %s", got.out)
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	must(t, err)
	if len(entries) != 1 {
		t.Errorf("it left %v", entries)
	}
	nearcall(t, "build", "-o", file, "./examples/hello/library", "--", "-ldflags=-s").expect(t, 0, "open it as embed:"+file)
}

func TestBuildRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lib.so")
	t.Chdir(root)
	nearcall(t, "build", "./examples/hello/library").expect(t, 2)
	nearcall(t, "build", "./examples/hello/library", "-o", filepath.Join(file, "lib.so")).expect(t, 1, "the directory has to exist")
	nearcall(t, "build", "-o", file, "./no/such/package").expect(t, 1)
	nearcall(t, "build", "-o", file, "./tests/programs/testserver").expect(t, 1)
	if _, err := os.Stat(file); err == nil {
		t.Error("it left a library that cannot be loaded")
	}
	t.Setenv("PATH", "/nonexistent")
	nearcall(t, "build", "-o", file, "./examples/hello/library").expect(t, 1, "install Go")
}
