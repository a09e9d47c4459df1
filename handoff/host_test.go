package handoff_test

import (
	"os"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/handoff"
)

func TestHostMatches(t *testing.T) {
	text, err := os.ReadFile("../conformance/hosts.tsv")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(row) != 3 {
			continue
		}
		rows++
		if got := handoff.HostMatches(row[0], row[1]); got != (row[2] == "yes") {
			t.Errorf("HostMatches(%q, %q) = %v", row[0], row[1], got)
		}
	}
	if rows < 15 {
		t.Errorf("%d rows", rows)
	}
}
