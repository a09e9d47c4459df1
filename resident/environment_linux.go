package resident

import (
	"os"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/resident/internal/inheritance"
)

// startEnvironment is what this process was started with, as the kernel has it: the
// program may have changed its own since. What tells of descriptors is none of it.
func startEnvironment() []string {
	text, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return os.Environ()
	}
	variables := textLines(text)
	return slices.DeleteFunc(variables, func(variable string) bool {
		name, _, found := strings.Cut(variable, "=")
		return !found || inheritance.IsVariable(name)
	})
}

// textLines are those of a file of the kernel's whose lines end with NUL.
func textLines(text []byte) []string {
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// changes are what the program has made of its environment before its runs, which it
// does in a plain run as well.
type changes struct {
	names []string // of variables that it has set, changed or removed
	set   []string
}

func changesSince(start []string) changes {
	var c changes
	now := os.Environ()
	for _, variable := range now {
		name, _, _ := strings.Cut(variable, "=")
		if !slices.Contains(start, variable) && !inheritance.IsVariable(name) {
			c.names, c.set = append(c.names, name), append(c.set, variable)
		}
	}
	for _, variable := range start {
		name, _, _ := strings.Cut(variable, "=")
		if _, is := lookup(now, name); !is {
			c.names = append(c.names, name)
		}
	}
	return c
}

// apply makes the same changes to a caller's environment.
func (c changes) apply(variables []string) []string {
	if len(c.names) == 0 {
		return variables
	}
	changed := slices.DeleteFunc(slices.Clone(variables), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(c.names, name)
	})
	return append(changed, c.set...)
}
