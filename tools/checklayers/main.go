// Checklayers holds the repository to the arrows of ARCHITECTURE.md: which
// folder may import or include which, where files lie and what they are called.
//
// Usage:
//
//	checklayers [-root DIR]
//
// It prints a line for each break and exits with 1 when there is any.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/nearcall/nearcall/tools/internal/tree"
)

func main() {
	root := flag.String("root", ".", "the repository's folder")
	flag.Parse()
	problems, err := Check(*root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "checklayers:", err)
		os.Exit(1)
	}
	for _, problem := range problems {
		fmt.Println(problem)
	}
	if len(problems) > 0 {
		fmt.Fprintf(os.Stderr, "checklayers: %d arrows are broken; tools/checklayers/arrows.go states those of Go, parts.go those within a package, and the headers of libnearcall's folders theirs\n", len(problems))
		os.Exit(1)
	}
}

// Check returns a sentence for each break.
func Check(root string) ([]string, error) {
	files, err := tree.Files(root)
	if err != nil {
		return nil, err
	}
	problems := upward(arrows)
	checks := []func(string, []string) ([]string, error){checkImports, checkIncludes, checkFolders, checkPlaces, checkMarkedImports, checkParts, checkKnots, checkAliases}
	for _, check := range checks {
		found, err := check(root, files)
		if err != nil {
			return nil, err
		}
		problems = append(problems, found...)
	}
	return problems, nil
}
