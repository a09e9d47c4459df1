package main

import (
	"path/filepath"
	"regexp"
	"strings"
)

// function is one function of a file: its first line, counted from 1, and how
// many it has.
type function struct {
	name  string
	line  int
	lines int
}

// language knows how files of one language are cut into lines that count, and
// those into functions.
type language struct {
	code      func(text string) []string
	functions func(lines []string) ([]function, error)
}

var (
	golang = &language{allLines, goFunctions}
	c      = &language{allLines, cFunctions}
	perl   = &language{linesBeforeEnd, perlFunctions}
	// XS mixes C with declarations that the preprocessor expands; its
	// functions have no end that could be told from outside.
	xs     = &language{linesBeforeEnd, noFunctions}
	python = &language{allLines, pythonFunctions}
	shell  = &language{allLines, shellFunctions}
)

var byExtension = map[string]*language{
	".go": golang,
	".c":  c, ".h": c,
	".pl": perl, ".pm": perl, ".t": perl, ".PL": perl, ".psgi": perl,
	".xs": xs,
	".py": python, ".pyi": python,
	".sh": shell, ".bash": shell,
}

var byInterpreter = []struct {
	line     *regexp.Regexp
	language *language
}{
	{regexp.MustCompile(`^#!.*\bperl\b`), perl},
	{regexp.MustCompile(`^#!.*\bpython3?\b`), python},
	{regexp.MustCompile(`^#!.*\b(ba|da)?sh\b`), shell},
}

// languageOf goes by extension, then by the interpreter in the first line. It
// returns nil for what is not code.
func languageOf(file, text string) *language {
	if found := byExtension[filepath.Ext(file)]; found != nil {
		return found
	}
	first, _, _ := strings.Cut(text, "\n")
	for _, candidate := range byInterpreter {
		if candidate.line.MatchString(first) {
			return candidate.language
		}
	}
	return nil
}

const markerLines = 5

// exempt is true for files that nobody writes by hand.
func exempt(file, text string) bool {
	if filepath.Base(file) == "ppport.h" {
		return true
	}
	for i, line := range allLines(text) {
		if i == markerLines {
			break
		}
		if strings.Contains(line, "Code generated ") && strings.Contains(line, "DO NOT EDIT.") {
			return true
		}
	}
	return false
}

func allLines(text string) []string {
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

func linesBeforeEnd(text string) []string {
	lines := allLines(text)
	for i, line := range lines {
		if line == "__END__" || line == "__DATA__" {
			return lines[:i]
		}
	}
	return lines
}
