package shop

import (
	"math"

	"github.com/nearcall/nearcall/status"
)

// An Outlook is what is expected of the days to come.
type Outlook struct {
	Level    float64   `nearcall:"level"`
	Trend    float64   `nearcall:"trend"`
	Expected []float64 `nearcall:"expected"`
	Least    []float64 `nearcall:"least"`
	Most     []float64 `nearcall:"most"`
}

const (
	levelShare = 0.2 // of the newest day in the level, and of the newest step in the trend
	trendShare = 0.05
	deviations = 2.0 // on either side of what is expected
	daysMin    = 2
	daysMax    = 366
)

// Forecast goes on from what was sold each day, by exponential smoothing with a trend.
func Forecast(history []float64, days int64) (Outlook, error) {
	if len(history) < daysMin || days < 1 || days > daysMax {
		return Outlook{}, status.Errorf(status.InvalidArgument, "%d days of history, %d to come: expected %d at least, and 1 to %d", len(history), days, daysMin, daysMax)
	}
	level, trend, squares := history[0], history[1]-history[0], 0.0
	for _, sold := range history[1:] {
		missed := sold - level - trend
		squares += missed * missed
		before := level
		level += trend + levelShare*missed
		trend += trendShare * (level - before - trend)
	}
	deviation := math.Sqrt(squares / float64(len(history)-1))
	all := make([]float64, 3*days)
	o := Outlook{Level: level, Trend: trend, Expected: all[:days:days], Least: all[days : 2*days : 2*days], Most: all[2*days:]}
	for day := range days {
		expected := level + float64(day+1)*trend
		width := deviations * deviation * math.Sqrt(float64(day+1))
		o.Expected[day], o.Least[day], o.Most[day] = expected, max(0, expected-width), expected+width
	}
	return o, nil
}
