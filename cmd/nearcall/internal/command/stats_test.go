package command_test

import (
	"encoding/json"
	"testing"
)

func TestStats(t *testing.T) {
	address := serveDemo(t)
	for _, args := range [][]string{{"stats", address}, {"stats", "--json", address}} {
		var counters map[string]any
		must(t, json.Unmarshal([]byte(nearcall(t, args...).expect(t, 0).out), &counters))
		if counters["process_id"] == nil {
			t.Fatalf("got %v", counters)
		}
	}
	nearcall(t, "stats", "unix:/no/such/socket").expect(t, 78)
}
