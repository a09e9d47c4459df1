package schema_test

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/internal/schema"
)

func TestDiff(t *testing.T) {
	type options = schema.GoOptions
	names := func(names ...string) options { return options{ParamNames: names} }
	f := func(fn any, with options) *schema.Document { return document(t, function(t, "f", fn, with)) }
	oneField := func() *schema.Document {
		type S struct{ A, B int }
		return f(func(S) {}, options{})
	}
	otherField := func() *schema.Document {
		type S struct {
			A string
			C int
		}
		return f(func(S) {}, options{})
	}
	for _, test := range []struct {
		name          string
		before, after *schema.Document
		want          []string
	}{
		{"nothing", oneField(), oneField(), nil},
		{"other functions", f(func() {}, options{}), document(t, function(t, "g", func() {}, options{})),
			[]string{"-function f was removed or renamed", "+function g was added"}},
		{"optional parameter", f(func(int) {}, options{}), f(func(int, *int) {}, options{}),
			[]string{"+parameter 2 (arg2) of f was added and may be left out"}},
		{"needed parameter", f(func(int) {}, options{}), f(func(int, int) {}, options{}),
			[]string{"-parameter 2 (arg2) of f was added and is not optional"}},
		{"further arguments", f(func(int) {}, options{}), f(func(int, ...int) {}, options{}),
			[]string{"+function f is now variadic", "+parameter 2 (arg2) of f was added and may be left out"}},
		{"no further arguments", f(func(...int) {}, options{}), f(func(int) {}, options{}),
			[]string{"-function f is no longer variadic"}},
		{"fewer parameters", f(func(int, int) {}, names("a", "b")), f(func(int) {}, names("c")),
			[]string{"+parameter 1 of f was called a and is called c", "-parameter 2 (b) of f was removed"}},
		{"types", f(func(int) int { return 0 }, options{}), f(func([]int) string { return "" }, options{}),
			[]string{"-parameter 1 (arg1) of f was int64 and is list of int64", "-the results of f were [int64] and are [string]"}},
		{"files", f(func(*os.File) {}, options{}), f(func(*net.TCPConn) *os.File { return nil }, options{}),
			[]string{"-parameter 1 (arg1) of f was file and is connection", "-the results of f were [] and are [file]"}},
		{"promises", f(func() {}, options{Idempotent: true}), f(func() {}, options{Doc: "new"}),
			[]string{"-function f is no longer idempotent", "+the documentation of f changed"}},
		{"more promises", f(func() {}, options{}), f(func() {}, options{Idempotent: true}), []string{"+function f is now idempotent"}},
		{"fields", oneField(), otherField(),
			[]string{"-field A of struct S was int64 and is string", "-field B of struct S was removed or renamed", "+field C was added to struct S"}},
	} {
		expectChanges(t, test.name, test.before, test.after, test.want)
	}
}

func TestDiffOfNames(t *testing.T) {
	type options = schema.GoOptions
	names := func(names ...string) options { return options{ParamNames: names} }
	f := func(fn any, with options) *schema.Document { return document(t, function(t, "f", fn, with)) }
	for _, test := range []struct {
		name          string
		before, after *schema.Document
		want          []string
	}{
		{"another order", f(func(string, string) {}, names("from", "to")), f(func(string, string) {}, names("to", "from")),
			[]string{"-parameter 1 (from) of f is now parameter 2", "-parameter 2 (to) of f is now parameter 1"}},
		{"one moved up", f(func(int, int) {}, names("a", "b")), f(func(int, *int) {}, names("b", "c")),
			[]string{"+parameter 1 of f was called a and is called b", "-parameter 2 (b) of f is now parameter 1", "-parameter 2 (b) of f was int64 and is optional int64"}},
		{"all renamed", f(func(string, int, string) {}, names("from", "amount", "to")), f(func(string, int, string) {}, names("source", "cents", "target")),
			[]string{"+parameter 1 of f was called from and is called source", "+parameter 2 of f was called amount and is called cents", "+parameter 3 of f was called to and is called target",
				"-parameters from, to of f, all string, have other names: whether they changed places cannot be told"}},
		{"named", f(func(string, string) {}, options{}), f(func(string, string) {}, names("from", "to")),
			[]string{"+parameter 1 of f was called arg1 and is called from", "+parameter 2 of f was called arg2 and is called to",
				"-parameters arg1, arg2 of f, all string, have other names: whether they changed places cannot be told"}},
		{"no longer named", f(func(string, string) {}, names("from", "to")), f(func(string, string) {}, options{}),
			[]string{"+parameter 1 of f was called from and is called arg1", "+parameter 2 of f was called to and is called arg2",
				"-parameters from, to of f, all string, have other names: whether they changed places cannot be told"}},
		{"named, of two types", f(func(string, int) {}, options{}), f(func(string, int) {}, names("from", "cents")),
			[]string{"+parameter 1 of f was called arg1 and is called from", "+parameter 2 of f was called arg2 and is called cents"}},
	} {
		expectChanges(t, test.name, test.before, test.after, test.want)
	}
}

// expectChanges: want holds "+" or "-" for compatible or not, then the sentence.
func expectChanges(t *testing.T, name string, before, after *schema.Document, want []string) {
	t.Helper()
	var got []string
	for _, change := range schema.Diff(before, after) {
		sign := "-"
		if change.Compatible {
			sign = "+"
		}
		got = append(got, sign+change.Text)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
