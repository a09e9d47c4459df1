package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/report"
)

// plannedNames are the rows of all groups, with those that are left out.
func plannedNames() map[string]bool {
	names := map[string]bool{}
	for _, g := range (tools{}).groups() {
		for _, row := range g.rows {
			names[row.name] = true
			names[fmt.Sprintf("%s:%d", row.name, row.size)] = true
		}
		for _, left := range g.leftOut {
			for name := range strings.SplitSeq(left.Group, ", ") {
				names[name] = true
			}
		}
	}
	return names
}

// A row that is renamed would leave its place in the report empty.
func TestReportAsksForRowsThatAreThere(t *testing.T) {
	planned := plannedNames()
	wanted := report.Wants()
	for _, name := range wanted.Rows {
		if !planned[name] {
			t.Errorf("the report shows %s, and there is no such row", name)
		}
	}
	for _, pattern := range wanted.Patterns {
		found := false
		for name := range planned {
			found = found || pattern.MatchString(name)
		}
		if !found {
			t.Errorf("the report shows rows as %s, and there is none", pattern)
		}
	}
}

// A row of nobody would never count as faster than Nearcall.
func TestRowsAreOfNearcallOrOfOthers(t *testing.T) {
	for _, g := range (tools{}).groups() {
		for _, row := range g.rows {
			if _, known := report.IsOwn(row.name); !known {
				t.Errorf("%s of %s is neither of Nearcall nor of another way, for the report", row.name, g.name)
			}
		}
	}
}
