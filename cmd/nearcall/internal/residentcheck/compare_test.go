package residentcheck_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/residentcheck"
)

// What differs between plain runs is not compared, and everything else is.
func TestCompare(t *testing.T) {
	type done = residentcheck.Done
	type difference = residentcheck.Difference
	file := func(state string) map[string]string { return map[string]string{"made": state} }
	for name, c := range map[string]struct {
		plain, again, got done
		want              []difference
		varies            []string
	}{
		"the same": {plain: done{Output: "a\n"}, again: done{Output: "a\n"}, got: done{Output: "a\n"}},
		"a line":   {plain: done{Output: "a\nb\n"}, again: done{Output: "a\nb\n"}, got: done{Output: "a\nc\n"}, want: []difference{{What: "output", Where: "2", Plain: "b\n", Got: "c\n"}}},
		"no end of the line": {plain: done{Errors: "a\n"}, again: done{Errors: "a\n"}, got: done{Errors: "a"},
			want: []difference{{What: "errors", Where: "1", Plain: "a\n", Got: "a"}}},
		"one more": {plain: done{Output: "a\n"}, again: done{Output: "a\n"}, got: done{Output: "a\nb\n"},
			want: []difference{{What: "output", Where: "2", Plain: "(no such line)", Got: "b\n"}}},
		"a number": {plain: done{Output: "in 0.31 s\n"}, again: done{Output: "in 0.31 s\n"}, got: done{Output: "in 12 s\n"},
			want: []difference{{What: "output", Where: "1", Plain: "in 0.31 s\n", Got: "in 12 s\n", NumbersAlone: true}}},
		"a line that varies": {plain: done{Output: "at 1\nb\n"}, again: done{Output: "at 2\nb\n"}, got: done{Output: "at 3\nb\n"}, varies: []string{"output, line 1"}},
		"and one beside it": {plain: done{Output: "at 1\nb\n"}, again: done{Output: "at 2\nb\n"}, got: done{Output: "at 3\nc\n"},
			want: []difference{{What: "output", Where: "2", Plain: "b\n", Got: "c\n"}}, varies: []string{"output, line 1"}},
		"lines that vary": {plain: done{Output: "1\n"}, again: done{Output: "1\n2\n"}, got: done{Output: "3\n"},
			varies: []string{"output, all of it: its number of lines is other"}},
		"a line that is ignored": {plain: done{Output: "took 1\nb\n"}, again: done{Output: "took 1\nb\n"}, got: done{Output: "took 2\nb\n"}},
		"the code":               {again: done{}, got: done{Code: 2}, want: []difference{{What: "end", Plain: "exit code 0", Got: "exit code 2"}}},
		"a signal": {plain: done{Code: -1, Signal: "killed"}, again: done{Code: -1, Signal: "killed"}, got: done{Code: 137},
			want: []difference{{What: "end", Plain: "signal: killed", Got: "exit code 137"}}},
		"a code that varies": {plain: done{Code: 1}, got: done{Code: 2}, varies: []string{"how it ends: exit code 1, exit code 0"}},
		"a file": {plain: done{Files: file("1")}, again: done{Files: file("1")}, got: done{},
			want: []difference{{What: "file", Where: "made", Plain: "1", Got: "as before the run"}}},
		"another file":       {got: done{Files: file("1")}, want: []difference{{What: "file", Where: "made", Plain: "as before the run", Got: "1"}}},
		"a file that varies": {plain: done{Files: file("1")}, again: done{Files: file("2")}, got: done{Files: file("3")}, varies: []string{"the file made"}},
	} {
		got, varies := residentcheck.Compare(c.plain, c.again, c.got, regexp.MustCompile("^took "))
		if !slices.Equal(got, c.want) || !slices.Equal(varies, c.varies) {
			t.Errorf("%s: %+v and %q, not %+v and %q", name, got, varies, c.want, c.varies)
		}
	}
}
