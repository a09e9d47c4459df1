package result

import (
	"bytes"
	"os/exec"

	"github.com/nearcall/nearcall/internal/machine"
)

// What Versions say instead of a revision, and behind one beside which files were changed,
// added or removed.
const (
	Unknown = machine.Unknown
	Dirty   = "-dirty"
)

// Revision is that of the tree whose root is source, or Unknown. What a full run itself
// writes changes nothing that is measured, and neither do other documents: these may differ.
func Revision(source string) string {
	name := commandText("git", "-C", source, "describe", "--always")
	if name == Unknown {
		return name
	}
	// Every file for itself: of a folder that is new only documents may be in it.
	changed, err := exec.Command("git", "--no-optional-locks", "-C", source, "status", "--porcelain", "--untracked-files=all",
		"--", ".", ":(exclude)benchmarks/results", ":(exclude,glob)**/*.md").Output()
	if err != nil || len(bytes.TrimSpace(changed)) > 0 {
		name += Dirty
	}
	return name
}
