package result_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// write makes a file below a folder.
func write(t *testing.T, folder, path, text string) {
	t.Helper()
	path = filepath.Join(folder, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// committed is a repository with a commit.
func committed(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	write(t, folder, "a.go", "package a\n")
	write(t, folder, "README.md", "# A\n")
	for _, arguments := range [][]string{
		{"init", "--quiet"}, {"add", "."},
		{"-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false", "commit", "--quiet", "--message", "a"},
	} {
		if said, err := exec.Command("git", append([]string{"-C", folder}, arguments...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", arguments, err, said)
		}
	}
	return folder
}

// What is built from the tree, and is not in the revision, makes it another.
func TestRevisionTellsWhatDiffers(t *testing.T) {
	for name, test := range map[string]struct {
		path  string
		dirty bool
	}{
		"a changed file":         {"a.go", true},
		"a new file":             {"b.go", true},
		"a file of a new folder": {"b/b.go", true},
		"a changed document":     {"README.md", false},
		"a new document":         {"b/README.md", false},
		"a result":               {"benchmarks/results/latest.json", false},
	} {
		folder := committed(t)
		clean := result.Revision(folder)
		if clean == result.Unknown || strings.HasSuffix(clean, result.Dirty) {
			t.Fatalf("without any change it is %s", clean)
		}
		write(t, folder, test.path, "another text\n")
		if got := result.Revision(folder); strings.HasSuffix(got, result.Dirty) != test.dirty || !strings.HasPrefix(got, clean) {
			t.Errorf("with %s %s is %s", name, clean, got)
		}
	}
	none := t.TempDir()
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(none))
	if got := result.Revision(none); got != result.Unknown {
		t.Errorf("a folder of no repository is %s", got)
	}
}
