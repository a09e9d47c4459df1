package result_test

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/result"
)

func TestGoalIsJudged(t *testing.T) {
	for _, c := range []struct {
		goal  *result.Goal
		value float64
		met   bool
	}{
		{result.AtMost(1.15), 1.15, true},
		{result.AtMost(1.15), 1.16, false},
		{result.AtLeast(1.5), 1.5, true},
		{result.AtLeast(1.5), 1.49, false},
		{result.Under(2500), 2499.9, true},
		{result.Under(2500), 2500, false},
		{result.AtMost(-5), 0, false},
		{result.AtMost(0), -5, true},
		{result.Under(1), math.NaN(), false},
		{result.AtMost(1), math.NaN(), false},
		{result.AtLeast(1), math.NaN(), false},
	} {
		if got := c.goal.Judged(c.value); got.Met != c.met {
			t.Errorf("%v judged as %+v", c.value, got)
		}
		if c.goal.Met {
			t.Error("judging changed the goal itself")
		}
	}
	var none *result.Goal
	if none.Judged(1) != nil {
		t.Error("no goal was judged")
	}
}

func TestFileKeepsWhatWasWritten(t *testing.T) {
	written := result.Result{
		Schema: result.Schema, Date: time.Unix(1, 0).UTC(),
		Rows: []result.Row{
			{Name: "floor-c-socket", Group: "small", Size: 64, Callers: 1, P50NS: 9, MaxNS: 99, PerSRounds: []float64{1},
				Histogram: &result.Histogram{LowerNS: []int64{8, 10}, Counts: []int64{1, 2}}},
			{Name: "nearcall-c-shm", Group: "small", Failed: "no report [\n1, 2\n]"},
		},
		Comparisons: []result.Comparison{{
			Kind: result.KindDifference, Of: result.Figure{Row: "a", Size: 64, Figure: result.FigureP50},
			With: &result.Figure{Row: "b", Size: 3, Figure: result.FigureP99}, Value: 2, Goal: result.Under(1).Judged(2),
		}},
		LeftOut: []result.LeftOut{{Group: "quota", Why: "not root"}},
	}
	path := filepath.Join(t.TempDir(), "latest.json")
	if err := written.Write(path); err != nil {
		t.Fatal(err)
	}
	read, err := result.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*read, written) {
		t.Errorf("read %+v, wrote %+v", *read, written)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), `"lower_ns": [8,10],`) {
		t.Errorf("a list of numbers is not in one line; %v", err)
	}
}

func TestSchemas(t *testing.T) {
	for schema, readable := range map[int]bool{result.Schema - 1: false, result.Schema: true, result.Schema + 1: false} {
		path := filepath.Join(t.TempDir(), "latest.json")
		if err := (&result.Result{Schema: schema}).Write(path); err != nil {
			t.Fatal(err)
		}
		if _, err := result.Read(path); (err == nil) != readable {
			t.Errorf("a file of schema %d: %v", schema, err)
		}
	}
}
