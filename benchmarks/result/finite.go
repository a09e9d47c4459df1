package result

import (
	"encoding/json"
	"slices"
)

// FailInfinite makes failures of what has a figure that is no number: no file could hold
// the result otherwise, and all of it would be lost for one figure.
func (r *Result) FailInfinite() {
	for i, row := range r.Rows {
		if why := unwritable(row); why != "" {
			r.Rows[i] = Row{Name: row.Name, Group: row.Group, Size: row.Size, Callers: row.Callers, Engine: row.Engine, Failed: why}
		}
	}
	for i, c := range r.Comparisons {
		if why := unwritable(c); why != "" {
			c.Value, c.NotMeasured = 0, why
			if c.Goal != nil {
				missed := *c.Goal
				missed.Met = false
				c.Goal = &missed
			}
			r.Comparisons[i] = c
		}
	}
	r.Measures = slices.DeleteFunc(r.Measures, func(m Measure) bool {
		why := unwritable(m)
		if why != "" {
			r.LeftOut = append(r.LeftOut, LeftOut{Group: m.Name, Why: why, Failed: true})
		}
		return why != ""
	})
}

// unwritable is why a file cannot hold a value; "": it can.
func unwritable(value any) string {
	if _, err := json.Marshal(value); err != nil {
		return "a figure is no number: " + err.Error()
	}
	return ""
}
