package resident

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// Libraries are what is mapped to be run, and not what is read or has been removed.
func TestMapped(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	paths := make(map[string]string)
	for name, protection := range map[string]int{"library": unix.PROT_READ | unix.PROT_EXEC, "data": unix.PROT_READ, "removed": unix.PROT_READ | unix.PROT_EXEC} {
		paths[name] = mapFile(t, name, protection)
	}
	if err := os.Remove(paths["removed"]); err != nil {
		t.Fatal(err)
	}
	got := mapped(own)
	for path, want := range map[string]bool{paths["library"]: true, paths["data"]: false, paths["removed"]: false, own: false} {
		if slices.Contains(got, path) != want {
			t.Errorf("%s is among %v: not %t", path, got, want)
		}
	}
}

func mapFile(t *testing.T, name string, protection int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("text"), 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	memory, err := unix.Mmap(int(file.Fd()), 0, 4, protection, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(memory) })
	return path
}
