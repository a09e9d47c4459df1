// Package tree lists the files of the repository that people wrote.
package tree

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Files returns the paths below root, relative to it, of all files that git
// tracks or would track. What is built or ignored, and broken samples in
// testdata, are left out.
func Files(root string) ([]string, error) {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files in %s: %w: %s", root, err, stderr.String())
	}
	var files []string
	for path := range strings.SplitSeq(string(out), "\x00") {
		if path != "" && !inTestdata(path) && exists(filepath.Join(root, path)) {
			files = append(files, path)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("git knows no files in %s, which cannot be right", root)
	}
	return files, nil
}

func inTestdata(path string) bool {
	return strings.HasPrefix(path, "testdata/") || strings.Contains(path, "/testdata/")
}

// exists is false for files that are deleted and not committed as such yet.
func exists(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}
