package windows_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/windows"
)

const ms = int64(time.Millisecond)

// The clock is the test's own: what a call takes is what it moves it by.
func TestCallsAreCountedWhereTheyEnd(t *testing.T) {
	const begin = 1_000_000_007 // windows are from there on, not of the clock's own hours
	c := windows.NewCounter(begin, 55*time.Millisecond, 10*time.Millisecond)
	now := int64(begin)
	for _, took := range []int64{3, 3, 3, 1, 9, 25, 1, 4, 5, 100} {
		now += took * ms
		c.Add(now)
	}
	// Ends are at 3, 6, 9 | 10, 19 | | | 44, 45, 49 | 54 and 154.
	if got, want := c.Counts(), []uint64{3, 2, 0, 0, 3}; !slices.Equal(got, want) {
		t.Errorf("counted are %v, not %v", got, want)
	}
	if c.Calls() != 10 {
		t.Errorf("of 10 calls %d are counted", c.Calls())
	}
}

func TestCallersAreAddedUp(t *testing.T) {
	own := []uint64{1, 2}
	all := windows.AddUp(windows.AddUp(nil, own), []uint64{3, 0})
	if !slices.Equal(all, []uint64{4, 2}) || !slices.Equal(own, []uint64{1, 2}) {
		t.Errorf("together %v, of which one is %v", all, own)
	}
}

func TestRatesAreThoseOfWindows(t *testing.T) {
	counts := []uint64{50, 10, 40, 30, 20, 0, 60, 70, 90, 80}
	got := windows.RatesOf(counts, 100*time.Millisecond)
	if want := (windows.Rates{LeastPerS: 0, P10PerS: 0, MedianPerS: 400, MostPerS: 900}); got != want {
		t.Errorf("they are %+v, not %+v", got, want)
	}
	if counts[0] != 50 {
		t.Error("the windows have lost their order")
	}
	if one := windows.RatesOf([]uint64{7}, time.Second); one.LeastPerS != 7 || one.MostPerS != 7 {
		t.Errorf("of one they are %+v", one)
	}
}

func TestShareBelow(t *testing.T) {
	counts := []uint64{0, 19, 20, 100}
	if got := windows.ShareBelow(counts, 100*time.Millisecond, 200); got != 0.5 {
		t.Errorf("a share of %v is below 200 a second", got)
	}
}
