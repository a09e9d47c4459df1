package command_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// Four digits of a time are what a person reads; --json has the nanoseconds.
var pinged = regexp.MustCompile(strings.ReplaceAll(`^(answer from \S+ in TIME\n){3}3 answers: least TIME, mean TIME, most TIME\n$`, "TIME", `[0-9.]{1,5}(µs|ms|s)`))

func TestPing(t *testing.T) {
	address := serveDemo(t)
	nearcall(t, "ping", address).expect(t, 0, "answer from "+address)
	if got := nearcall(t, "ping", "--count", "3", "--interval", "1ms", address).expect(t, 0); !pinged.MatchString(got.out) {
		t.Errorf("it prints %q", got.out)
	}
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
