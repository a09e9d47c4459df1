// Command scaling computes the tables of docs/scaling.md, and writes them between the marks of
// the page. It uses the package by which clients decide, a simulation with a fixed seed, and
// arithmetic.
//
//	scaling [-root DIR] [-check]
//
// With -check it writes nothing, and exits with 1 if the page has other tables.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

const page = "docs/scaling.md"

// A table of the page stands between <!-- table NAME --> and <!-- end -->.
var place = regexp.MustCompile(`(?s)(<!-- table ([a-z-]+) -->\n).*?(<!-- end -->)`)

func main() {
	root := flag.String("root", ".", "the repository's folder")
	check := flag.Bool("check", false, "fail if the page has other tables")
	flag.Parse()
	if err := update(filepath.Join(*root, page), *check); err != nil {
		fmt.Fprintln(os.Stderr, "scaling:", err)
		os.Exit(1)
	}
}

func update(path string, check bool) error {
	former, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page, err := filled(string(former))
	if err != nil || page == string(former) {
		return err
	}
	if check {
		return fmt.Errorf("%s has other tables than are computed now: `go run -C tools ./scaling -root ..` writes them", path)
	}
	return os.WriteFile(path, []byte(page), 0o644)
}

// filled returns a page with its tables.
func filled(page string) (_ string, err error) {
	page = place.ReplaceAllStringFunc(page, func(found string) string {
		parts := place.FindStringSubmatch(found)
		table, known := tables[parts[2]]
		if !known {
			err = fmt.Errorf("nobody computes the table %q", parts[2])
			return found
		}
		return parts[1] + "\n" + table() + "\n" + parts[3]
	})
	return page, err
}
