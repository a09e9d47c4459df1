package main

import "regexp"

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
