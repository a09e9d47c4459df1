package main

import (
	"slices"
	"strings"
	"testing"
)

func TestBusyCounts(t *testing.T) {
	for _, test := range []struct {
		cpus, processors int
		busy             []int
	}{
		{1, 1, []int{0, 1}},
		{2, 2, []int{0, 1, 2}},
		{8, 8, []int{0, 2, 4, 6, 8}},
		{15, 15, []int{0, 4, 8, 12, 15}},
		{16, 16, []int{0, 4, 8, 12, 16}},
		{39, 39, []int{0, 10, 20, 30, 39}},
		{48, 40, []int{0, 5, 10, 15, 20, 25, 30, 35}},
	} {
		processors, busy := busyCounts(test.cpus)
		if processors != test.processors || !slices.Equal(busy, test.busy) {
			t.Errorf("%d CPUs: %d processors, busy %v", test.cpus, processors, busy)
		}
	}
}

// groupsNamed are those whose names begin so.
func groupsNamed(prefix string) []group { return namedIn((tools{}).groups(), prefix) }

func namedIn(all []group, prefix string) (named []group) {
	for _, g := range all {
		if strings.HasPrefix(g.name, prefix) {
			named = append(named, g)
		}
	}
	return named
}

// What nobody understands is not measured as something else.
func TestRowsThatAreNotUnderstoodAreRefused(t *testing.T) {
	const row = "name 64 test memory c:raw"
	for text, understood := range map[string]bool{
		"group g quick callers=2\n" + row + " uncounted\n": true,
		"group g quikc\n" + row + "\n":                     false,
		"group g length=1\n" + row + "\n":                  false,
		"group {nobody}\n" + row + "\n":                    false,
		"group g\n" + row + " unconted\n":                  false,
		"group g\n" + row + " callers=many\n":              false,
		"group g\nname 64 tset memory c:raw\n":             false,
		"group g\nname 64 test memroy c:raw\n":             false,
		"group g\nname 64 test memory java:raw\n":          false,
		"group g\nname 64 test memory c\n":                 false,
		"group g\nname 64 test memory\n":                   false,
		"group g\nname 0 none run c:run run=nothing\n":     false,
		"group g beside\n" + row + "\n":                    false,
		"group g on=moon\n" + row + "\n":                   false,
	} {
		if why := refused(func() { _ = (tools{}).groupsIn(text) }); (why == nil) != understood {
			t.Errorf("%q: %v", text, why)
		}
	}
}

// refused is why something is not done; nil where it is.
func refused(do func()) (why any) {
	defer func() { why = recover() }()
	do()
	return nil
}

func TestComparisonsThatAreNotUnderstoodAreRefused(t *testing.T) {
	for text, understood := range map[string]bool{
		"p50_ns a":              true,
		"p50_ns a:0 / b@p99_ns": true,
		"per_s a - b:3 >= 1":    true,
		"p50 a":                 false,
		"p50_ns a / b@p98_ns":   false,
		"p50_ns a:none":         false,
		"p50_ns a <= much":      false,
		"p50_ns a <=":           false,
		"p50_ns a * b":          false,
		"p50_ns a / b == 1":     false,
		"p50_ns {nobody}":       false,
	} {
		if why := refused(func() { _ = comparisonsIn(text) }); (why == nil) != understood {
			t.Errorf("%q: %v", text, why)
		}
	}
}

// A row that is asked for by name has to be one.
func TestRowNamesDiffer(t *testing.T) {
	type row struct {
		name string
		size int
	}
	seen := map[row]string{}
	for _, g := range (tools{}).groups() {
		for _, plan := range g.rows {
			key := row{plan.name, plan.size}
			if other, found := seen[key]; found {
				t.Errorf("%s of %d bytes is in %s and in %s", plan.name, plan.size, other, g.name)
			}
			seen[key] = g.name
		}
	}
}
