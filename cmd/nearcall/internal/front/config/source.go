package config

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// A source is the text line by line, to be shown to whoever wrote it.
type source []string

func sourceOf(text []byte) source { return strings.Split(string(text), "\n") }

const notUnderstood = `this is not understood: a line is a table as [timeouts], a key with its value as peek_ms = 100, or a # comment; the text is UTF-8`

// begins is how a table's header or a key begins.
var begins = regexp.MustCompile(`^\s*(?:(\[+)\s*)?([A-Za-z_][\w-]*)\s*(.*)$`)

// shown is line number line, without what does not belong on a terminal.
func (s source) shown(line int) string {
	if line < 1 || line > len(s) {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) && r != '\t' {
			return '?'
		}
		return r
	}, strings.TrimRight(s[line-1], "\r"))
}

// head is a line up to its value or comment.
func (s source) head(line int) string {
	head, _, _ := strings.Cut(s.shown(line), "=")
	head, _, _ = strings.Cut(head, "#")
	return head
}

// value is what follows the = of a line; found: there is one.
func (s source) value(line int) (value string, found bool) {
	_, value, found = strings.Cut(s.shown(line), "=")
	value, _, _ = strings.Cut(value, " #")
	return strings.TrimSpace(value), found
}

// beginning is where what ends in an error in line end begins, after a line that was
// understood: a list that is not closed is found at the end of the next lines.
func (s source) beginning(understood, end int) int {
	for line := understood + 1; line < end; line++ {
		if begins.MatchString(s.shown(line)) {
			return line
		}
	}
	return end
}

// unread says what is wrong with a line of a table that is not TOML.
func (s source) unread(line int, table string) string {
	found := begins.FindStringSubmatch(s.shown(line))
	if found == nil {
		return notUnderstood
	}
	bracket, name, rest := found[1], found[2], found[3]
	t := tableOf(name)
	switch {
	case t != nil && (bracket != "" || rest == "" || rest[0] == ']'):
		return fmt.Sprintf("%s is not understood: write %s", strings.TrimSpace(s.head(line)), t.header)
	case bracket != "":
		return fmt.Sprintf("%s is not understood: %s are known", strings.TrimSpace(s.head(line)), headers())
	}
	return s.misfit(line, table+"."+name)
}

// misfit says what the value of a key, as "route[2].backend", has to be.
func (s source) misfit(line int, path string) string {
	first, _, _ := strings.Cut(path, ".")
	first, _, _ = strings.Cut(first, "[")
	name := path[strings.LastIndexByte(path, '.')+1:]
	t := tableOf(first)
	value, assigned := s.value(line)
	switch {
	case t == nil:
		return notUnderstood
	case path == first || t.key(name) == nil && strings.Count(path, ".") < 2 && t.name == "backend":
		return fmt.Sprintf("%s is not a value but a table: write %s, and its keys in the lines below it", name, t.header)
	case t.key(name) == nil:
		return t.unknown(name)
	case t.name == "backend" && strings.Count(path, ".") < 2:
		return fmt.Sprintf("[backend] needs a name before it can have %s: write %s", name, t.header)
	case !assigned:
		return fmt.Sprintf("there is no = after %s: write %s", name, t.key(name).line())
	case value == "":
		return fmt.Sprintf("%s has no value: write %s", name, t.key(name).line())
	}
	return fmt.Sprintf("%s is %s: write %s%s", name, value, t.key(name).wanted(), oddity(value))
}

// oddity tells what one does not see in a text that has its quotes.
func oddity(value string) string {
	quote := value[:1]
	switch {
	case quote != `"` && quote != "'":
		return ""
	case strings.Count(value, quote) == 1:
		return "; the second quote is missing"
	case quote == `"` && strings.Contains(value, `\`):
		return `; in quotes a \ is written twice`
	}
	return ""
}
