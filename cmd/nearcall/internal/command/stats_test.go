package command_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/nearcall/nearcall/client"
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

// callsOfABusyConnection are more than a connection makes before it is given memory.
const callsOfABusyConnection = 64

// memoriesGiven is how many connections were given memory, as stats shows it.
func memoriesGiven(t *testing.T, address string) (given int) {
	t.Helper()
	counters := struct {
		Given *int `json:"shared_memory_total"`
	}{}
	must(t, json.Unmarshal([]byte(nearcall(t, "stats", address).expect(t, 0).out), &counters))
	if counters.Given == nil {
		t.Fatal("shared_memory_total is missing")
	}
	return *counters.Given
}

func callBusily(t *testing.T, address string) {
	t.Helper()
	c, err := client.New(address)
	must(t, err)
	defer c.Close()
	for range callsOfABusyConnection {
		_, err := client.Call[int64](context.Background(), c, "one")
		must(t, err)
	}
}

func TestStatsCountSharedMemory(t *testing.T) {
	address := serveDemo(t)
	callBusily(t, address+"?shm=off")
	if given := memoriesGiven(t, address); given != 0 {
		t.Fatalf("%d connections have memory, and nobody wanted any", given)
	}
	callBusily(t, address)
	if given := memoriesGiven(t, address); given != 1 {
		t.Fatalf("%d connections were given memory, not 1", given)
	}
}
