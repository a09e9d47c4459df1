package schema

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Change is one difference between two documents.
type Change struct {
	// Compatible means that callers written for the old document go on working.
	Compatible bool
	// Text is a sentence for people.
	Text string
}

// Diff returns what has changed from one document to the next, in a fixed order:
// functions in the order of the old document, then new functions, then structs by name.
func Diff(before, after *Document) []Change {
	d := &differ{}
	for _, f := range before.Functions {
		if now := after.Function(f.Name); now != nil {
			d.function(f, now)
		} else {
			d.breaking("function %s was removed or renamed", f.Name)
		}
	}
	for _, f := range after.Functions {
		if before.Function(f.Name) == nil {
			d.compatible("function %s was added", f.Name)
		}
	}
	d.structs(before.types(), after.types())
	return d.changes
}

// types returns the structs of all functions.
func (d *Document) types() Types {
	all := Types{}
	for _, f := range d.Functions {
		maps.Copy(all, f.Types)
	}
	return all
}

// Incompatible returns, as sentences, what keeps callers that were written for one
// description of a function from calling it by another. It returns none if nothing
// does. If after is nil, the function is gone.
func Incompatible(before, after *Function) []string {
	next := &Document{}
	if after != nil {
		// Comparing the name is up to the caller.
		renamed := *after
		renamed.Name = before.Name
		next.Functions = []*Function{&renamed}
	}
	sentences := []string{}
	for _, change := range Diff(&Document{Functions: []*Function{before}}, next) {
		if !change.Compatible {
			sentences = append(sentences, change.Text)
		}
	}
	return sentences
}

type differ struct{ changes []Change }

func (d *differ) compatible(format string, args ...any) {
	d.changes = append(d.changes, Change{Compatible: true, Text: fmt.Sprintf(format, args...)})
}

func (d *differ) breaking(format string, args ...any) {
	d.changes = append(d.changes, Change{Text: fmt.Sprintf(format, args...)})
}

func (d *differ) function(before, after *Function) {
	d.params(before, after)
	d.results(before, after)
	d.flag(before.Name, "idempotent", before.Idempotent, after.Idempotent)
	d.flag(before.Name, "raw", before.Raw, after.Raw)
	if before.Doc != after.Doc {
		d.compatible("the documentation of %s changed", before.Name)
	}
}

// flag compares a promise: making one is compatible, dropping it is not.
func (d *differ) flag(function, name string, before, after bool) {
	switch {
	case before && !after:
		d.breaking("function %s is no longer %s", function, name)
	case after && !before:
		d.compatible("function %s is now %s", function, name)
	}
}

func (d *differ) params(before, after *Function) {
	name := before.Name
	d.paramNames(before, after)
	for i, param := range before.Params {
		if i >= len(after.Params) {
			d.breaking("parameter %d (%s) of %s was removed", i+1, param.Name, name)
			continue
		}
		now := after.Params[i]
		if !param.Type.Equal(now.Type) {
			d.breaking("parameter %d (%s) of %s was %s and is %s", i+1, param.Name, name, param.Type, now.Type)
		}
	}
	d.variadic(before, after)
	for i := len(before.Params); i < len(after.Params); i++ {
		added := after.Params[i]
		mayBeLeftOut := added.Type.Kind == Optional || after.Variadic && i == len(after.Params)-1
		if mayBeLeftOut && !before.Variadic {
			d.compatible("parameter %d (%s) of %s was added and may be left out", i+1, added.Name, name)
		} else {
			d.breaking("parameter %d (%s) of %s was added and is not optional", i+1, added.Name, name)
		}
	}
}

// paramNames compares the names of parameters. Callers pass parameters by position, so
// another name is compatible and another position is not. If several parameters of the
// same type were renamed at once, it cannot be told whether they have changed places,
// so it counts as if they had. Giving parameters their first names, or taking all names
// away, counts in the same way.
func (d *differ) paramNames(before, after *Function) {
	renamed := map[string][]string{}
	for i, param := range before.Params[:min(len(before.Params), len(after.Params))] {
		now := after.Params[i]
		at := slices.IndexFunc(after.Params, func(p Param) bool { return p.Name == param.Name })
		switch {
		case at == i:
		case at >= 0:
			d.breaking("parameter %d (%s) of %s is now parameter %d", i+1, param.Name, before.Name, at+1)
		default:
			d.compatible("parameter %d of %s was called %s and is called %s", i+1, before.Name, param.Name, now.Name)
			renamed[now.Type.String()] = append(renamed[now.Type.String()], param.Name)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(renamed)) {
		if names := renamed[kind]; len(names) > 1 {
			d.breaking("parameters %s of %s, all %s, have other names: whether they changed places cannot be told",
				strings.Join(names, ", "), before.Name, kind)
		}
	}
}

// variadic compares whether the last parameter repeats. If it did not and now does,
// that is compatible only for the parameter that was there before.
func (d *differ) variadic(before, after *Function) {
	switch {
	case before.Variadic && !after.Variadic:
		d.breaking("function %s is no longer variadic", before.Name)
	case after.Variadic && !before.Variadic:
		d.compatible("function %s is now variadic", before.Name)
	}
}

func (d *differ) results(before, after *Function) {
	same := slices.EqualFunc(before.Results, after.Results, Type.Equal)
	if !same {
		d.breaking("the results of %s were %v and are %v", before.Name, before.Results, after.Results)
	}
}

// structs compares the structs that both documents hold. If one is missing, what used
// it has changed as well.
func (d *differ) structs(before, after Types) {
	for _, name := range slices.Sorted(maps.Keys(before)) {
		now, ok := after[name]
		if !ok {
			continue
		}
		d.fields(name, before[name], now)
	}
}

func (d *differ) fields(name string, before, after Struct) {
	find := func(in Struct, field string) int {
		return slices.IndexFunc(in.Fields, func(f Field) bool { return f.Name == field })
	}
	for _, field := range before.Fields {
		at := find(after, field.Name)
		switch {
		case at < 0:
			d.breaking("field %s of struct %s was removed or renamed", field.Name, name)
		case !field.Type.Equal(after.Fields[at].Type):
			d.breaking("field %s of struct %s was %s and is %s", field.Name, name, field.Type, after.Fields[at].Type)
		}
	}
	for _, field := range after.Fields {
		if find(before, field.Name) < 0 {
			d.compatible("field %s was added to struct %s", field.Name, name)
		}
	}
}
