package gate_test

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/gate"
)

// A machine is one that is shared: moods come and go, of a few turns or of hundreds.
type machine struct {
	random *rand.Rand
	mood   float64
	left   int // turns until the next mood
}

// turn is what a turn takes that would take so many ns on a quiet machine.
func (m *machine) turn(ns float64) float64 {
	if m.left == 0 {
		m.mood, m.left = 1+0.6*m.random.Float64(), 1+int(math.Exp(6*m.random.Float64()))
	}
	m.left--
	ns *= m.mood * (1 + 0.03*m.random.NormFloat64())
	if m.random.IntN(5) == 0 {
		ns *= 1 + m.random.ExpFloat64() // something else ran
	}
	if m.random.IntN(3) == 0 {
		ns *= 6 // both sides took turns on one CPU
	}
	return ns
}

// row is a row whose head takes so many times as long as base. Each process is by 2 %
// faster or slower than another of the same program, for all of its life.
func (m *machine) row(ratio float64) gate.Row {
	const sets, pairs = 12, 24
	row := gate.Row{Name: "synthetic"}
	for range sets {
		base, head := 1000*math.Exp(0.02*m.random.NormFloat64()), 1000*ratio*math.Exp(0.02*m.random.NormFloat64())
		var set gate.Set
		for range pairs {
			set.Base, set.Head = append(set.Base, m.turn(base)), append(set.Head, m.turn(head))
		}
		row.Sets = append(row.Sets, set)
	}
	return row
}

// judged counts how many of many rows fail, and in how many the interval holds the ratio.
func judged(t *testing.T, ratio float64, rows int) (worse, held int) {
	t.Helper()
	m := machine{random: rand.New(rand.NewPCG(uint64(1000*ratio), 1))}
	for range rows {
		all, err := gate.Judge([]gate.Row{m.row(ratio)})
		if err != nil {
			t.Fatal(err)
		}
		if all[0].Worse() {
			worse++
		}
		if all[0].Low <= ratio && ratio <= all[0].High {
			held++
		}
	}
	return worse, held
}

// What is told apart on a machine with moods: nothing from itself, and 8 % from nothing.
func TestMoodsAreNoDifference(t *testing.T) {
	const rows = 1000
	for _, test := range []struct {
		ratio              float64
		worseMin, worseMax int
	}{
		{1, 0, 0},
		{1.02, 0, rows / 20},
		{1.08, rows * 9 / 10, rows},
		{1.15, rows * 99 / 100, rows},
		{0.8, 0, 0},
	} {
		worse, held := judged(t, test.ratio, rows)
		t.Logf("%+.0f %%: %d of %d rows fail; %d intervals hold it", 100*(test.ratio-1), worse, rows, held)
		if worse < test.worseMin || worse > test.worseMax {
			t.Errorf("%+.0f %%: %d of %d rows fail", 100*(test.ratio-1), worse, rows)
		}
		if held < rows*98/100 {
			t.Errorf("%+.0f %%: only %d of %d intervals hold it", 100*(test.ratio-1), held, rows)
		}
	}
}

// Thousands of turns of two processes are no more than two processes: one of them may
// have been lucky with its memory.
func TestTurnsOfOneSetTellNothing(t *testing.T) {
	var set gate.Set
	for range 10_000 {
		set.Base, set.Head = append(set.Base, 100), append(set.Head, 110)
	}
	if judged, err := gate.Judge([]gate.Row{{Name: "lucky", Sets: []gate.Set{set}}}); err == nil {
		t.Errorf("%+v", judged)
	}
}

// What was fast in some turns and is so in none any more is slower, also where base was
// seldom fast.
func TestAPaceThatIsLostIsSlower(t *testing.T) {
	row := gate.Row{Name: "sleeps"}
	for range gate.SetsMin {
		row.Sets = append(row.Sets, gate.Set{Base: []float64{1000, 7000, 1020, 7100, 1010}, Head: []float64{7000, 7100, 7050, 7000, 7020}})
	}
	judged, err := gate.Judge([]gate.Row{row})
	if err != nil || !judged[0].Worse() || judged[0].Middle < 6 || judged[0].Compared != 3*gate.SetsMin || judged[0].Pairs != 5*gate.SetsMin {
		t.Errorf("%v, %+v", err, judged)
	}
}

// even is a row with as many sets as it takes, in which head takes so many times as long.
func even(name string, ratio float64) gate.Row {
	row := gate.Row{Name: name, Bytes: 64}
	for range gate.SetsMin {
		row.Sets = append(row.Sets, gate.Set{Base: []float64{100, 110, 120}, Head: []float64{100 * ratio, 110 * ratio, 120 * ratio}})
	}
	return row
}

func TestRowsThatCannotBeJudged(t *testing.T) {
	few := gate.Row{Name: "few", Sets: even("", 1).Sets[1:]}
	added, gone := few, few
	added.FailedBase, gone.FailedHead = "base, start: no such function", "head, start: no such function"
	judged, err := gate.Judge([]gate.Row{even("a", 1.2), few, added, gone})
	if err != nil {
		t.Fatal(err)
	}
	for i, worse := range []bool{true, false, false, true} {
		if judged[i].Worse() != worse {
			t.Errorf("%+v", judged[i])
		}
	}
	var text strings.Builder
	if err := gate.Print(&text, judged); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"+20.0 %", "+20.0 to +20.0 %", "slower", "not compared: head, start: no such function", "not compared: in 7 sets both sides came to their pace; it takes 8"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("there is no %q in\n%s", part, &text)
		}
	}
}

func TestSetsAreJoinedAndKept(t *testing.T) {
	one := []gate.Row{even("a", 1), even("b", 1)}
	joined, err := gate.Join(nil, one)
	if err == nil {
		joined, err = gate.Join(joined, one)
	}
	if err != nil || len(joined) != 2 || len(joined[0].Sets) != 2*gate.SetsMin || len(one[0].Sets) != gate.SetsMin {
		t.Fatalf("%v, %v", joined, err)
	}
	for name, later := range map[string][]gate.Row{"another row": {even("a", 1), even("c", 1)}, "fewer rows": one[:1]} {
		if joined, err := gate.Join(one, later); err == nil {
			t.Errorf("%s: %v", name, joined)
		}
	}
	path := filepath.Join(t.TempDir(), "new", "turns.json")
	if err := gate.Write(path, joined); err != nil {
		t.Fatal(err)
	}
	if kept, err := gate.Read(path); err != nil || len(kept) != 2 || kept[1].Sets[15].Head[1] != 110 {
		t.Errorf("%v, %v", kept, err)
	}
}
