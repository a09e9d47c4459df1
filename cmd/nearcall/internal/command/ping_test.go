package command_test

import (
	"encoding/json"
	"testing"
)

func TestPing(t *testing.T) {
	address := serveDemo(t)
	nearcall(t, "ping", address).expect(t, 0, "answer from "+address)
	got := nearcall(t, "ping", "--json", "--count", "3", "--interval", "1ms", address).expect(t, 0)
	var times struct {
		Count  int
		MinNs  int64   `json:"min_ns"`
		MeanNs int64   `json:"mean_ns"`
		MaxNs  int64   `json:"max_ns"`
		AllNs  []int64 `json:"all_ns"`
	}
	must(t, json.Unmarshal([]byte(got.out), &times))
	if times.Count != 3 || len(times.AllNs) != 3 || times.MinNs <= 0 || times.MinNs > times.MeanNs || times.MeanNs > times.MaxNs {
		t.Fatalf("got %s", got.out)
	}
	nearcall(t, "ping", "--count", "0", address).expect(t, 2)
	nearcall(t, "ping", "--interval", "-1s", address).expect(t, 2)
	nearcall(t, "ping", "unix:/no/such/socket").expect(t, 78)
}
