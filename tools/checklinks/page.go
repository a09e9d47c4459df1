package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// A page is what links of other pages may lead to, and where its own lead.
type page struct {
	anchors map[string]bool
	links   []link // to files and headings
	// unmerged are the lines that git wrote where it left a merge to a person.
	unmerged []int
}

type link struct {
	line   int
	target string
}

var (
	fence      = regexp.MustCompile("^ *```")
	heading    = regexp.MustCompile(`^#{1,6} +(.+?) *#*$`)
	named      = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	linked     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	inlineCode = regexp.MustCompile("`[^`]*`")
	otherHost  = regexp.MustCompile(`^[a-z]+:`)
	conflict   = regexp.MustCompile(`^(<{7}|>{7}) `)
)

// readPage reads a page's headings and links. What stands in code is neither.
func readPage(text string) page {
	p := page{anchors: map[string]bool{}}
	inCode := false
	for i, line := range strings.Split(text, "\n") {
		if conflict.MatchString(line) {
			p.unmerged = append(p.unmerged, i+1)
		}
		if fence.MatchString(line) {
			inCode = !inCode
		}
		if inCode {
			continue
		}
		if found := heading.FindStringSubmatch(line); found != nil {
			p.addHeading(found[1])
		}
		for _, found := range named.FindAllStringSubmatch(line, -1) {
			p.anchors[found[1]] = true
		}
		for _, found := range linked.FindAllStringSubmatch(inlineCode.ReplaceAllString(line, ""), -1) {
			if !otherHost.MatchString(found[1]) {
				p.links = append(p.links, link{i + 1, found[1]})
			}
		}
	}
	return p
}

// addHeading adds what a heading is referred to by; those that repeat it are numbered.
func (p page) addHeading(text string) {
	name := anchor(text)
	for n := 1; p.anchors[name]; n++ {
		name = fmt.Sprintf("%s-%d", anchor(text), n)
	}
	p.anchors[name] = true
}

var linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// anchor is what GitHub makes of a heading.
func anchor(heading string) string {
	heading = linkText.ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}
