package resident

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
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

// hideEnvironment leaves nothing of what this process was started with in
// /proc/PID/environ, where whoever may look sees it for as long as the process lives, but
// what tells whose resident it is. Go has copies of all.
func hideEnvironment() error {
	// C, where it is linked, has none: its table leads there. It copies what is set.
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		_ = os.Setenv(name, value)
	}
	start, length, err := shownEnvironment()
	if err != nil {
		return err
	}
	memory, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = memory.Close() }()
	block := make([]byte, length)
	if _, err := memory.ReadAt(block, start); err != nil {
		return err
	}
	for rest := block; len(rest) > 0; {
		variable, behind, _ := bytes.Cut(rest, []byte{0})
		if !bytes.HasPrefix(variable, []byte("NEARCALL_")) && !bytes.HasPrefix(variable, []byte("LISTEN_")) {
			clear(variable)
		}
		rest = behind
	}
	_, err = memory.WriteAt(block, start)
	return err
}

// shownEnvironment is where in this process's memory that is.
func shownEnvironment() (start, length int64, err error) {
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, 0, err
	}
	const first = 47 // of the fields behind the name
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < first+2 {
		return 0, 0, fmt.Errorf("/proc/self/stat has %d fields behind the name", len(fields))
	}
	start, err = strconv.ParseInt(string(fields[first]), 10, 64)
	if err != nil {
		return 0, 0, err
	}
	end, err := strconv.ParseInt(string(fields[first+1]), 10, 64)
	return start, end - start, err
}
