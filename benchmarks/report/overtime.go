package report

import "github.com/nearcall/nearcall/benchmarks/result"

// overTime finds the row without a pause of one that tables show over time.
func (r run) overTime(row result.Row) (long result.Row, c cell, asked bool) {
	name := row.Name + "-" + Sustained
	if !r.asked[name] {
		return long, c, false
	}
	long, c = r.find(name)
	return long, c, true
}

// meanOverTime is a row's calls per second over all time: those without a pause, or of all
// rounds, which are as long as each other.
func (r run) meanOverTime(row result.Row) string {
	if long, c, asked := r.overTime(row); asked && !c.Missing {
		return thousands(long.PerS)
	}
	if len(row.PerSRounds) == 0 {
		return thousands(row.PerS)
	}
	var sum float64
	for _, perS := range row.PerSRounds {
		sum += perS
	}
	return thousands(sum / float64(len(row.PerSRounds)))
}

func (r run) slowestOverTime(row result.Row) string {
	long, c, asked := r.overTime(row)
	switch {
	case !asked:
		return ""
	case c.Missing:
		return c.Absent()
	}
	return r.figure("slowest window")(long)
}

// ofFloor is a row's mean rate as a share of the floor's in the same condition.
func (r run) ofFloor(row result.Row) string {
	floor, c := r.find("floor-c-spin-" + lastWord(row.Name))
	if c.Missing || floor.PerS == 0 {
		return ""
	}
	return factor(row.PerS / floor.PerS)
}

// RowSeconds is how long each row of a condition lasted; 0 if there is none.
func (r run) RowSeconds(condition string) float64 {
	for _, row := range r.Rows {
		if row.Group == condition && row.RoundMS > 0 {
			return float64(row.RoundMS) / 1000
		}
	}
	return 0
}
