package result

import (
	"os/exec"

	"github.com/nearcall/nearcall/internal/machine"
)

// What Versions say instead of a revision, and behind one whose files were changed.
const (
	Unknown = machine.Unknown
	Dirty   = "-dirty"
)

// revision is that of the tree. What a full run itself writes changes nothing that is
// measured, and neither do other documents.
func revision(source string) string {
	name := commandText("git", "-C", source, "describe", "--always")
	if name == Unknown {
		return name
	}
	changed := exec.Command("git", "-C", source, "diff", "--quiet", "HEAD", "--", ".", ":(exclude)benchmarks/results", ":(exclude,glob)**/*.md")
	if changed.Run() != nil {
		name += Dirty
	}
	return name
}
