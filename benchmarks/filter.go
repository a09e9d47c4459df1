package main

import (
	"regexp"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// A filter picks what is measured, by name. The zero filter picks all.
type filter struct{ pattern *regexp.Regexp }

func newFilter(text string) (filter, error) {
	if text == "" {
		return filter{}, nil
	}
	pattern, err := regexp.Compile(text)
	return filter{pattern}, err
}

func (f filter) wants(name string) bool { return f.pattern == nil || f.pattern.MatchString(name) }

// groups returns the groups that are wanted as a whole, and of the others the rows
// that are.
func (f filter) groups(all []group) []group {
	var wanted []group
	for _, group := range all {
		if !f.wants(group.name) {
			var rows []rowPlan
			for _, row := range group.rows {
				if f.wants(row.name) {
					rows = append(rows, row)
				}
			}
			group.rows = rows
		}
		if len(group.rows) > 0 {
			wanted = append(wanted, group)
		}
	}
	return wanted
}

// compare computes the comparisons. Those that a filter or a group that was left out
// has taken a row from are none; one of a row that failed says so.
func (f filter) compare(all []result.Comparison, rows []measuredRow, leftOut []result.LeftOut) ([]result.Comparison, error) {
	var done []result.Comparison
	for _, comparison := range all {
		computed, err := compared(comparison, rows)
		if err != nil && f.pattern == nil && len(leftOut) == 0 {
			return nil, err
		}
		if err == nil {
			done = append(done, computed)
		}
	}
	return done, nil
}
