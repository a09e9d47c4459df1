// Checksize finds functions over 70 lines and files over 600 lines, in Go, C,
// Perl, XS, Python and shell.
//
// Usage:
//
//	checksize [-root DIR]
//
// It prints a line for each and exits with 1 when there is any. Generated files
// are exempt, and so is what follows __END__ in Perl: that is the manual.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nearcall/nearcall/tools/internal/tree"
)

const (
	functionLinesMax = 70
	fileLinesMax     = 600
)

func main() {
	root := flag.String("root", ".", "the repository's folder")
	flag.Parse()
	problems, err := Check(*root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "checksize:", err)
		os.Exit(1)
	}
	for _, problem := range problems {
		fmt.Println(problem)
	}
	if len(problems) > 0 {
		fmt.Fprintf(os.Stderr, "checksize: %d too long; split by idea, not by length\n", len(problems))
		os.Exit(1)
	}
}

// Check returns a sentence for each function or file that is too long.
func Check(root string) ([]string, error) {
	files, err := tree.Files(root)
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		found, err := checkFile(file, string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		problems = append(problems, found...)
	}
	return problems, nil
}

func checkFile(file, text string) ([]string, error) {
	language := languageOf(file, text)
	if language == nil || exempt(file, text) {
		return nil, nil
	}
	lines := language.code(text)
	var problems []string
	if len(lines) > fileLinesMax {
		problems = append(problems, fmt.Sprintf("%s: %d lines; at most %d", file, len(lines), fileLinesMax))
	}
	functions, err := language.functions(lines)
	for _, f := range functions {
		if f.lines > functionLinesMax {
			problems = append(problems, fmt.Sprintf("%s:%d: %s has %d lines; at most %d", file, f.line, f.name, f.lines, functionLinesMax))
		}
	}
	return problems, err
}
