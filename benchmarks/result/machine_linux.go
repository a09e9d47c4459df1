package result

import (
	"os/exec"
	"runtime"
	"strings"

	"github.com/nearcall/nearcall/internal/machine"
)

// A Machine is where a run took place.
type Machine = machine.Machine

// A Load is what else the machine had to do.
type Load = machine.Load

// Versions are those of what took part.
type Versions struct {
	Nearcall string `json:"nearcall"`
	Go       string `json:"go"`
	C        string `json:"c"`
	Perl     string `json:"perl"`
	Python   string `json:"python"`
}

// ThisMachine describes the machine this program runs on.
func ThisMachine() Machine { return machine.This() }

// ThisSoftware asks the tools for their versions. source is the repository's
// root.
func ThisSoftware(source, perl, python string) Versions {
	return Versions{
		Nearcall: Revision(source),
		Go:       runtime.Version(),
		C:        commandText("gcc", "-dumpfullversion"),
		Perl:     commandText(perl, "-e", "print $^V"),
		Python:   commandText(python, "-c", "import platform; print(platform.python_version())"),
	}
}

func commandText(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil || len(out) == 0 {
		return machine.Unknown
	}
	return strings.TrimSpace(string(out))
}
