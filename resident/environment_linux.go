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

// startEnvironment returns the environment with which this process was started, as the
// kernel has it: the program may have changed its own since. The variables that pass
// descriptors are left out.
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

// textLines splits the text of a file of the kernel in which every line ends with a
// NUL.
func textLines(text []byte) []string {
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// changes are what the program has done to its environment before its runs. It does the
// same in a plain run.
type changes struct {
	names []string // names of variables that it has set, changed or removed
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

// apply makes the same changes to the environment of a caller.
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

// hideEnvironment removes from /proc/PID/environ what this process was started with,
// except what tells whose resident it is. Anybody who may read that file could
// otherwise see it for as long as the process lives. Go has copies of everything.
func hideEnvironment() error {
	// If C is linked, its table points there. Setting a variable makes C copy it.
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

// shownEnvironment returns where in this process's memory that environment lies.
func shownEnvironment() (start, length int64, err error) {
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, 0, err
	}
	const first = 47 // index among the fields behind the name
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
