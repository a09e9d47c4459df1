package command_test

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// The manual has a page for each command, and man can read it.
func TestManual(t *testing.T) {
	directory := t.TempDir()
	out, err := exec.Command("go", "run", "github.com/nearcall/nearcall/cmd/nearcall/internal/manual", "-output", directory).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, page := range []string{"nearcall", "nearcall-call", "nearcall-bench", "nearcall-schema-diff", "nearcall-gateway", "nearcall-gateway-status"} {
		out, err := exec.Command("groff", "-man", "-Tutf8", "-ww", "-z", filepath.Join(directory, page+".1")).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Fatalf("%s: %v\n%s", page, err, out)
		}
	}
}
