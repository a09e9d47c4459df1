package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// names are those of the rows that a schedule has, all groups together.
func (s schedule) names() string {
	var all []string
	for _, group := range s.groups {
		for _, row := range group.rows {
			all = append(all, group.name+"/"+row.name)
		}
	}
	return strings.Join(all, " ")
}

func TestFilterTakesGroupsWholeAndRowsAlone(t *testing.T) {
	groups := []group{
		{name: "one", rows: []rowPlan{{name: "a"}, {name: "b"}}},
		{name: "two", rows: []rowPlan{{name: "b"}, {name: "c"}}},
		{name: "none", rows: []rowPlan{{name: "d"}}},
	}
	only, err := newFilter("^(one|c)$")
	check(t, err)
	if got := only.schedule(fullPace, groups, nil).names(); got != "one/a one/b two/c" {
		t.Errorf("chosen are %s", got)
	}
	if got := (filter{}).schedule(fullPace, groups, nil).names(); got != "one/a one/b two/b two/c none/d" {
		t.Errorf("without a filter %s", got)
	}
	if _, err := newFilter("("); err == nil {
		t.Error("( is no regexp")
	}
}

func TestFilterOfNothingIsAnError(t *testing.T) {
	for _, only := range []string{"^$", "nearcal-c", "^libnearcall_allocations$"} { // the last has no rows to look at
		if _, err := (options{only: only}).schedule(""); err == nil || !strings.Contains(err.Error(), only) {
			t.Errorf("%q: %v", only, err)
		}
	}
}

func TestRoundsThatAreAskedForHoldEverywhere(t *testing.T) {
	s := scheduled(t, options{rounds: 2})
	for _, group := range s.groups {
		if got, want := s.pace.of(group).rounds, 2*max(group.slices, 1); got != want {
			t.Errorf("%s has %d rounds, and %d are asked for", group.name, got, want)
		}
	}
	quick := scheduled(t, options{rounds: 5, quick: true, only: "^(embed-child|peers-cold)$"})
	for _, group := range quick.groups {
		if got := quick.pace.of(group).rounds; got != 5 {
			t.Errorf("%s has %d rounds in a quick run", group.name, got)
		}
	}
}

// The README lists all names that -only chooses by, numbers and the like as WORDS.
func TestReadmeListsGroupsAndParts(t *testing.T) {
	text, err := os.ReadFile("README.md")
	check(t, err)
	s := scheduled(t, options{})
	var groups []string
	for _, group := range s.groups {
		groups = append(groups, group.name)
	}
	var parts []string
	for _, part := range s.parts {
		parts = append(parts, part.name)
	}
	for list, names := range map[string][]string{"Groups": groups, "Parts": parts} {
		_, after, found := strings.Cut(string(text), "\n"+list+": ")
		paragraph, _, _ := strings.Cut(after, "\n\n")
		if !found {
			t.Fatalf("there is no list of %s", list)
		}
		listed := map[string]bool{} // whether anything has that name
		for _, name := range regexp.MustCompile("`[^`]+`").FindAllString(paragraph, -1) {
			listed[strings.Trim(name, "`")] = false
		}
		for _, name := range names {
			if !marks(listed, name) {
				t.Errorf("%s has no %s", list, name)
			}
		}
		for pattern, used := range listed {
			if !used {
				t.Errorf("%s has %s, which is nothing", list, pattern)
			}
		}
	}
}

// marks marks the pattern that a name is listed as, if it is.
func marks(listed map[string]bool, name string) bool {
	words := regexp.MustCompile("[A-Z]+")
	for _, exact := range []bool{true, false} { // peers-paced is no paced-PERIOD
		for pattern := range listed {
			matcher := "^" + words.ReplaceAllString(pattern, "[a-z0-9]+") + "$"
			if exact == (matcher == "^"+pattern+"$") && regexp.MustCompile(matcher).MatchString(name) {
				listed[pattern] = true
				return true
			}
		}
	}
	return false
}
