package services_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/micro"

	"github.com/nearcall/nearcall/gateway/nats/internal/services"
	"github.com/nearcall/nearcall/server"
)

func ask[T any](t testing.TB, s *stage, subject string) T {
	t.Helper()
	answer, err := s.caller.Request(subject, nil, patience)
	must(t, err)
	var document T
	must(t, json.Unmarshal(answer.Data, &document))
	return document
}

func TestControl(t *testing.T) {
	s := start(t, serve(t, registerAll), services.Config{Metadata: map[string]string{"host": "a", "zone": "z"}})
	ping := ask[micro.Ping](t, s, "$SRV.PING")
	if ping.Name != "demo" || ping.Version != "1.2.3" || ping.Type != micro.PingResponseType || ping.Metadata["zone"] != "z" {
		t.Errorf("PING says %+v", ping)
	}
	if again := ask[micro.Ping](t, s, "$SRV.PING.demo"); again.ID != ping.ID || ping.ID == "" {
		t.Errorf("PING.demo says %+v", again)
	}
	info := ask[micro.Info](t, s, "$SRV.INFO.demo."+ping.ID)
	var found micro.EndpointInfo
	for _, endpoint := range info.Endpoints {
		if endpoint.Name == "divmod" {
			found = endpoint
		}
	}
	if found.Subject != "nearcall.f.demo.divmod" || found.QueueGroup != "q" || found.Metadata["signature"] != "divmod(a int64, b int64) (int64, int64)" ||
		found.Metadata["description"] != "Divides: returns quotient and remainder." || len(found.Metadata["hash"]) != 64 {
		t.Errorf("INFO says %+v", found)
	}
}

func TestStatistics(t *testing.T) {
	s := start(t, serve(t, registerAll), services.Config{})
	for range 9 {
		s.call(t, "block", "1")
	}
	failed(t, s.call(t, "fail", `[5, "gone"]`), "404", "NOT_FOUND", "executed")
	s.Stop(t.Context()) // All calls are counted by then.
	stats := s.Statistics()
	if stats.Type != micro.StatsResponseType || stats.Started.IsZero() {
		t.Errorf("got %+v", stats)
	}
	for _, endpoint := range stats.Endpoints {
		var data struct {
			InFlight int `json:"in_flight"`
			Errors   map[string]int
			P50Ms    float64 `json:"p50_ms"`
			P99Ms    float64 `json:"p99_ms"`
		}
		must(t, json.Unmarshal(endpoint.Data, &data))
		switch endpoint.Name {
		case "block":
			if endpoint.NumRequests != 9 || endpoint.NumErrors != 0 || endpoint.AverageProcessingTime.Milliseconds() < 1 || data.P50Ms < 1 || data.P99Ms < data.P50Ms || data.InFlight != 0 {
				t.Errorf("got %+v %+v", endpoint, data)
			}
		case "fail":
			if endpoint.NumRequests != 1 || endpoint.NumErrors != 1 || endpoint.LastError != "404:gone" || data.Errors["NOT_FOUND"] != 1 {
				t.Errorf("got %+v %+v", endpoint, data)
			}
		default:
			if endpoint.NumRequests != 0 || data.P99Ms != 0 {
				t.Errorf("got %+v %+v", endpoint, data)
			}
		}
	}
}

// Names that NATS does not allow are changed or left out, and no two are the same.
func TestNames(t *testing.T) {
	of := serve(t, func(s *server.Server) {
		for _, name := range []string{"a.b", "a_b", "größe", "a..b", ".a", "a.*", "x>y"} {
			s.Register(name, func() string { return name })
		}
	})
	var log bytes.Buffer
	s := start(t, of, services.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	names := map[string]string{}
	for _, endpoint := range ask[micro.Info](t, s, "$SRV.INFO.demo").Endpoints {
		names[endpoint.Metadata["function"]] = endpoint.Name
		if got := s.call(t, endpoint.Metadata["function"], ""); string(got.Data) != `"`+endpoint.Metadata["function"]+`"` {
			t.Errorf("%s returned %s", endpoint.Metadata["function"], got.Data)
		}
	}
	if len(names) != 3 || names["a.b"] != "a_b" || !strings.HasPrefix(names["a_b"], "a_b_") || len(names["a_b"]) != 10 || names["größe"] != "gr__e" {
		t.Errorf("the names are %v", names)
	}
	for _, left := range []string{"a..b", ".a", "a.*", "x>y"} {
		if !strings.Contains(log.String(), "function="+left+"\n") {
			t.Errorf("the log does not say that %s is left out:\n%s", left, log.String())
		}
	}
}

func TestWrongNames(t *testing.T) {
	for name, version := range map[string]string{"a.b": "1.0.0", "": "1.0.0", "a": "1.0", "b": "v1.0.0", "c": ""} {
		if _, err := services.Start(services.Config{Name: name, Version: version}); err == nil || !strings.Contains(err.Error(), "write") {
			t.Errorf("%q %q: got %v", name, version, err)
		}
	}
}
