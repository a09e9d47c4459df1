package resident

import (
	"os"
	"slices"
	"strings"
)

// mapped returns the paths of the code that this process has mapped besides its
// program. These are its libraries, which may be replaced just as the program may.
func mapped(program string) []string {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil
	}
	var paths []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		at := strings.IndexByte(line, '/')
		if at < 0 || len(fields) < 2 || len(fields[1]) < 3 || fields[1][2] != 'x' {
			continue
		}
		path := strings.TrimSuffix(line[at:], "\n")
		own, err := os.Stat(path)
		if err != nil || !own.Mode().IsRegular() || slices.Contains(paths, path) || sameFile(own, program) {
			continue
		}
		paths = append(paths, path)
	}
	return paths
}

func sameFile(one os.FileInfo, path string) bool {
	other, err := os.Stat(path)
	return err == nil && os.SameFile(one, other)
}
