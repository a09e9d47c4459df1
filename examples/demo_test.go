package examples_test

import (
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// Parent, four workers, parent again, in each of three languages.
const demoVisits = 3 * 6

var (
	demoVisit    = regexp.MustCompile(`(?m)^  (C|Perl|Python) +(parent|worker \d) +\d+: Hello, (parent|worker \d)! visit (\d+)$`)
	demoMeasured = regexp.MustCompile(`(?m)^  (C|Perl|Python) +\d+\.\d us +\d+\.\d us$`)
)

func TestDemo(t *testing.T) {
	out := output(t, nil, "demo/run")
	var visits []int
	for _, match := range demoVisit.FindAllStringSubmatch(out, -1) {
		if match[2] != match[3] {
			t.Errorf("the answer is another caller's: %s", match[0])
		}
		visit, err := strconv.Atoi(match[4])
		if err != nil {
			t.Fatal(err)
		}
		visits = append(visits, visit)
	}
	slices.Sort(visits)
	for i, visit := range visits {
		if visit != i+1 {
			t.Errorf("visits were counted as %v", visits)
			break
		}
	}
	if measured := demoMeasured.FindAllString(out, -1); len(visits) != demoVisits || len(measured) != 3 {
		t.Errorf("%d visits and %d measurements, want %d and 3, in:\n%s", len(visits), len(measured), demoVisits, out)
	}
}
