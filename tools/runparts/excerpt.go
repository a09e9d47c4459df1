package main

import (
	"fmt"
	"regexp"
	"strings"
)

const (
	linesAfter   = 6 // of what says that something failed
	linesMarked  = 40
	linesAtEnd   = 8
	lineBytesMax = 300
)

var tellsMuch = regexp.MustCompile(`not ok |Failed test|^ *--- FAIL|^FAIL|^E  |FAILED|panic:|AddressSanitizer|error:`)

// excerpt returns the lines that tell most of a failure, and the last ones.
func excerpt(name, part, text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	var telling []string
	left := 0
	for _, line := range lines {
		if tellsMuch.MatchString(line) {
			left = linesAfter + 1
		}
		if left > 0 {
			telling = append(telling, line)
			left--
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: what %s said:\n", name, part)
	writeLast(&b, telling, linesMarked)
	fmt.Fprintf(&b, "%s: the end of %s:\n", name, part)
	writeLast(&b, lines, linesAtEnd)
	return b.String()
}

func writeLast(b *strings.Builder, lines []string, count int) {
	for _, line := range lines[max(0, len(lines)-count):] {
		fmt.Fprintln(b, line[:min(len(line), lineBytesMax)])
	}
}
