// Checklinks finds links between the pages of the repository that lead nowhere: to a file
// that is not there, or to a heading that a page does not have. Links to other hosts are
// not followed. It also finds merges that nobody has finished: in a page nothing else
// fails because of them.
//
// Usage:
//
//	checklinks [-root DIR]
//
// It prints a line for each and exits with 1 when there is any.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/tools/internal/tree"
)

func main() {
	root := flag.String("root", ".", "the repository's folder")
	flag.Parse()
	problems, err := Check(*root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "checklinks:", err)
		os.Exit(1)
	}
	for _, problem := range problems {
		fmt.Println(problem)
	}
	if len(problems) > 0 {
		fmt.Fprintf(os.Stderr, "checklinks: %d problems in pages\n", len(problems))
		os.Exit(1)
	}
}

const extension = ".md"

// Check returns a sentence for each link that leads nowhere, and for each mark of a merge.
func Check(root string) ([]string, error) {
	files, err := tree.Files(root)
	if err != nil {
		return nil, err
	}
	pages := map[string]page{}
	for _, file := range files {
		if path.Ext(file) != extension {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		pages[file] = readPage(string(text))
	}
	var problems []string
	for _, file := range slices.Sorted(maps.Keys(pages)) {
		for _, line := range pages[file].unmerged {
			problems = append(problems, fmt.Sprintf("%s:%d: a merge that is not finished", file, line))
		}
		for _, l := range pages[file].links {
			why, err := broken(root, pages, file, l.target)
			if err != nil {
				return nil, err
			}
			if why != "" {
				problems = append(problems, fmt.Sprintf("%s:%d: %s: %s", file, l.line, l.target, why))
			}
		}
	}
	return problems, nil
}

// broken is why a link of a file leads nowhere; "" where it leads somewhere.
func broken(root string, pages map[string]page, file, target string) (string, error) {
	name, heading, _ := strings.Cut(target, "#")
	if name == "" {
		name = file
	} else {
		name = path.Join(path.Dir(file), name)
	}
	_, err := os.Stat(filepath.Join(root, name))
	if errors.Is(err, fs.ErrNotExist) {
		return "there is no such file", nil
	}
	if p, known := pages[name]; known && heading != "" && !p.anchors[heading] {
		return "the page has no such heading", err
	}
	return "", err
}
