package machine_test

import (
	"testing"

	"github.com/nearcall/nearcall/internal/machine"
)

func TestPresentLoad(t *testing.T) {
	before, err := machine.PresentLoad()
	if err != nil {
		t.Fatal(err)
	}
	after, err := machine.PresentLoad()
	if err != nil || after.StealS < before.StealS || after.Average[0] < 0 {
		t.Errorf("got %+v after %+v, %v", after, before, err)
	}
}

func TestParseLoad(t *testing.T) {
	const counters = "cpu  100 2 3 400 5 6 7 850 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n"
	got, err := machine.ParseLoad("0.50 1.25 2.00 1/234 5678\n", counters)
	if err != nil || got.Average != [3]float64{0.5, 1.25, 2} || got.StealS != 8.5 {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range [][2]string{{"", counters}, {"a b c", counters}, {"1 2 3", "cpu 1 2"}, {"1 2 3", "intr 1 2 3 4 5 6 7 8 9"}} {
		if _, err := machine.ParseLoad(bad[0], bad[1]); err == nil {
			t.Errorf("read %q", bad)
		}
	}
}
