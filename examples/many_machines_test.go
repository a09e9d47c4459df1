package examples_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Calls move to the other host within the silence that ends a connection, and begin to succeed
// at once; the machine may add something.
const manyMachinesMovedMs = 1_000 + 300

var (
	manyMachinesRow   = regexp.MustCompile(`(?m)^\d+\.\d s +(.*?)  +(\d+) +(\d+) +(\d+) +\S+ +\S+ +\S+ +(\S+) *(.*)$`)
	manyMachinesTotal = regexp.MustCompile(`(?m)^(\d+) orders; executed twice: (\d+); outcomes that are not true: (\d+)$`)
)

// TestManyMachines runs the example, whose table says what callers saw.
func TestManyMachines(t *testing.T) {
	for _, way := range []string{"tls", "gateway"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			runManyMachines(t, way)
		})
	}
}

func runManyMachines(t *testing.T, way string) {
	out := output(t, nil, "many-machines/run", way)
	total := manyMachinesTotal.FindStringSubmatch(out)
	if total == nil || total[1] == "0" || total[2] != "0" || total[3] != "0" {
		t.Errorf("the hosts have executed %q", total)
	}
	rows := manyMachinesRow.FindAllStringSubmatch(out, -1)
	if events := content(t, "many-machines/"+way+".events"); len(rows) != len(regexp.MustCompile(`(?m)^\d`).FindAllString(events, -1))-1 {
		t.Errorf("%d rows for the events\n%s", len(rows), events)
	}
	cameBack := false
	for _, row := range rows {
		checkManyMachines(t, way, row)
		cameBack = cameBack || row[3] != "0" && slices.Contains([]string{"heal b", "kill b", "continue b"}, row[1])
	}
	if !cameBack {
		t.Error("host b has taken no order after it was cut off")
	}
	if t.Failed() {
		t.Log(out)
	}
}

func checkManyMachines(t *testing.T, way string, row []string) {
	t.Helper()
	event, byB, byC, failed := row[1], row[3], row[4], row[6]
	if byC == "0" {
		t.Errorf("%s: host c has taken no order", event)
	}
	switch event {
	case "nothing", "roll", "delay b 5ms 2ms":
		if byB == "0" {
			t.Errorf("%s: host b has taken no order", event)
		}
	case "heal b", "continue b":
		// NATS servers of a busy machine may take longer than one event to find each other again.
		if byB == "0" && way == "tls" {
			t.Errorf("%s: host b has taken no order", event)
		}
	case "silence b", "delay b 0ms 0ms; silence b", "cut b", "stop b":
		if moved, err := strconv.ParseFloat(row[5], 64); err == nil && moved > manyMachinesMovedMs {
			t.Errorf("%s: calls have moved after %s ms", event, row[5])
		}
	}
	// While their own gateway is replaced, callers have none.
	alone := way == "gateway" && event == "roll"
	quiet := event == "nothing" || event == "roll" || strings.HasPrefix(event, "delay b 5ms")
	if !alone && (quiet && failed != "" || strings.Contains(failed, "not-executed")) {
		t.Errorf("%s: calls have failed, which the other host could have answered: %s", event, failed)
	}
}
