package residentcheck

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Difference is what a resident's run did otherwise than plain runs do.
type Difference struct {
	Run   string `json:"run"`
	What  string `json:"what"`  // output, errors, end or file
	Where string `json:"where"` // the number of a line, or a path
	Plain string `json:"plain"`
	Got   string `json:"got"`
	// NumbersAlone: but for digits it is the same, as times are that a program prints.
	NumbersAlone bool `json:"numbers_alone,omitempty"`
}

// IsStale tells of a difference that comes from the caller that has started the resident.
func (d Difference) IsStale() bool { return d.Run == runOther }

// A comparison knows what two plain runs did, and so what is other each time.
type comparison struct {
	plain, again *Run
	ignore       []*regexp.Regexp
}

// differences are those of a run from the plain ones, but for what differs between these.
func (c comparison) differences(got *Run) []Difference {
	var all []Difference
	if c.plain.end() == c.again.end() && got.end() != c.plain.end() {
		all = append(all, Difference{What: "end", Plain: c.plain.end(), Got: got.end()})
	}
	all = append(all, c.ofText("output", c.plain.output, c.again.output, got.output)...)
	all = append(all, c.ofText("errors", c.plain.errors, c.again.errors, got.errors)...)
	all = append(all, c.ofFiles(got)...)
	for i := range all {
		all[i].Run = got.Name
	}
	return all
}

// varies is what differs between plain runs, for people.
func (c comparison) varies() (all []string) {
	if c.plain.end() != c.again.end() {
		all = append(all, "how it ends: "+c.plain.end()+", "+c.again.end())
	}
	for _, text := range []struct{ name, plain, again string }{
		{"output", c.plain.output, c.again.output}, {"errors", c.plain.errors, c.again.errors},
	} {
		a, b := c.lines(text.plain), c.lines(text.again)
		switch {
		case len(a) != len(b):
			all = append(all, text.name+", all of it: its number of lines is other")
		case !slices.Equal(a, b):
			all = append(all, text.name+", line "+strings.Join(otherLines(a, b), ", "))
		}
	}
	for _, path := range paths(c.plain.files, c.again.files) {
		if c.plain.files[path] != c.again.files[path] {
			all = append(all, "the file "+path)
		}
	}
	return all
}

func (r *Run) end() string {
	if r.Signal != "" {
		return "signal: " + r.Signal
	}
	return "exit code " + strconv.Itoa(r.ExitCode)
}

// ofText compares line by line. Where plain runs write other numbers of lines nobody knows
// which are to be compared.
func (c comparison) ofText(what, plain, again, got string) []Difference {
	if got == plain || got == again {
		return nil
	}
	a, b, lines := c.lines(plain), c.lines(again), c.lines(got)
	if len(a) != len(b) {
		return nil
	}
	for i := range max(len(a), len(lines)) {
		was, is := lineAt(a, i), lineAt(lines, i)
		if was != is && lineAt(b, i) == was {
			numbers := len(a) == len(lines) && withoutNumbers(was) == withoutNumbers(is)
			return []Difference{{What: what, Where: strconv.Itoa(i + 1), Plain: was, Got: is, NumbersAlone: numbers}}
		}
	}
	return nil
}

// lines are those of a text, with those that are ignored all alike.
func (c comparison) lines(text string) []string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if slices.ContainsFunc(c.ignore, func(r *regexp.Regexp) bool { return r.MatchString(line) }) {
			lines[i] = ""
		}
	}
	if last := len(lines) - 1; lines[last] == "" && strings.HasSuffix(text, "\n") {
		lines = lines[:last]
	}
	return lines
}

const noLine = "(no such line)"

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return noLine
}

func otherLines(a, b []string) (numbers []string) {
	for i := range a {
		if a[i] != b[i] {
			numbers = append(numbers, strconv.Itoa(i+1))
		}
	}
	return numbers
}

var number = regexp.MustCompile(`\d+(\.\d+)?`)

func withoutNumbers(line string) string { return number.ReplaceAllString(line, "0") }

func (c comparison) ofFiles(got *Run) (all []Difference) {
	for _, path := range paths(c.plain.files, c.again.files, got.files) {
		was, is := c.plain.files[path], got.files[path]
		if was != is && was == c.again.files[path] {
			all = append(all, Difference{What: "file", Where: path, Plain: orUntouched(was), Got: orUntouched(is)})
		}
	}
	return all
}

func orUntouched(state string) string {
	if state == "" {
		return "as before the run"
	}
	return state
}

func paths(of ...map[string]string) []string {
	all := map[string]bool{}
	for _, files := range of {
		for path := range files {
			all[path] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
