package residentcheck_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/residentcheck"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// source is a directory with a file of each kind.
func source(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(directory, "folder/deep"), 0o755))
	for _, name := range []string{"kept", "changed", "removed", "rewritten", "folder/deep/file"} {
		must(t, os.WriteFile(filepath.Join(directory, name), []byte(name), 0o640))
	}
	must(t, os.Symlink("kept", filepath.Join(directory, "link")))
	must(t, os.Chtimes(filepath.Join(directory, "kept"), time.Unix(1000, 0), time.Unix(1000, 0)))
	return directory
}

// Whatever a run does to the copy is seen, and is undone before the next.
func TestCopyIsPutBack(t *testing.T) {
	apart := t.TempDir()
	c, err := residentcheck.NewCopy(source(t), filepath.Join(apart, "deep", "copy"), apart)
	must(t, err)
	in := func(name string) string { return filepath.Join(c.Path(), name) }
	before, err := os.Stat(in("kept"))
	must(t, err)
	if !before.ModTime().Equal(time.Unix(1000, 0)) || before.Mode().Perm() != 0o640 {
		t.Errorf("the copy is of %v with mode %v", before.ModTime(), before.Mode())
	}
	for range 3 {
		if changes, err := c.Changes(); err != nil || len(changes) != 0 {
			t.Errorf("before anything was done there is %v, %v", changes, err)
		}
		must(t, os.WriteFile(in("changed"), []byte("!"), 0o640))
		must(t, os.Remove(in("removed")))
		must(t, os.RemoveAll(in("folder/deep")))
		must(t, os.WriteFile(in("new"), nil, 0o600))
		must(t, os.MkdirAll(in("__pycache__"), 0o700))
		must(t, os.WriteFile(in("__pycache__/x.cpython-311.pyc"), nil, 0o600))
		must(t, os.Remove(in("link")))
		must(t, os.Symlink("changed", in("link")))
		// The same in another file is the same.
		must(t, os.Remove(in("rewritten")))
		must(t, os.WriteFile(in("rewritten"), []byte("rewritten"), 0o640))
		want := map[string]string{
			"changed": "-rw-r-----, 1 bytes, sha256 bb7208bc9b5d7c04f1236a82a0093a5e", "removed": "removed", "folder/deep": "removed",
			"folder/deep/file": "removed", "new": "-rw-------, 0 bytes, sha256 e3b0c44298fc1c149afbf4c8996fb924", "link": "a link to changed",
		}
		changes, err := c.Changes()
		must(t, err)
		if !maps.Equal(changes, want) {
			t.Errorf("changes are %v, not %v", changes, want)
		}
		must(t, c.PutBack())
	}
	if after, err := os.Stat(in("kept")); err != nil || !os.SameFile(before, after) {
		t.Errorf("what nobody has touched is another file: %v", err)
	}
}

func TestCopyIsBounded(t *testing.T) {
	directory := t.TempDir()
	large := filepath.Join(directory, "large")
	must(t, os.WriteFile(large, nil, 0o600))
	must(t, os.Truncate(large, 1<<40))
	apart := t.TempDir()
	if _, err := residentcheck.NewCopy(directory, filepath.Join(apart, "copy"), apart); err == nil {
		t.Error("a terabyte was copied")
	}
}

// Temporary directories may be in the one that is copied, as in /tmp: the copy has no copy of
// itself.
func TestCopyWithinItsSource(t *testing.T) {
	directory := source(t)
	apart := filepath.Join(directory, "folder", "temporary")
	must(t, os.Mkdir(apart, 0o700))
	must(t, os.WriteFile(filepath.Join(apart, "notes"), nil, 0o600))
	c, err := residentcheck.NewCopy(directory, filepath.Join(apart, "copy"), apart)
	must(t, err)
	for range 2 {
		if _, err := os.Stat(filepath.Join(c.Path(), "folder/deep/file")); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(filepath.Join(c.Path(), "folder/temporary")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it was copied into itself: %v", err)
		}
		if changes, err := c.Changes(); err != nil || len(changes) != 0 {
			t.Errorf("before anything was done there is %v, %v", changes, err)
		}
		must(t, c.PutBack())
	}
}
