package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	gateway "github.com/nearcall/nearcall/gateway/nats"
	"github.com/nearcall/nearcall/status"
)

// Through two gateways every call has the result and the error that it has at the server itself.
func TestCallsAreAsDirectOnes(t *testing.T) {
	p := startPair(t, gateway.Config{}, gateway.Export{})
	direct, through := callAt(t, p.server.address), callAt(t, p.importer.listen)
	ctx := context.Background()
	for _, row := range []struct{ function, arguments string }{
		{"one", `[]`}, {"ack", `[2,3]`}, {"add", `[1.5,2]`}, {"sum", `[1,2,3]`}, {"divmod", `[7,2]`}, {"divmod", `[7,0]`},
		{"optional_sum", `[1]`}, {"md5", `["abc"]`}, {"greet", `[{"name":"Ann","age":3,"tags":["x"]}]`}, {"word_count", `["a a"]`},
		{"forward", `[{"label":"l","data":"AAEC"}]`}, {"move", `[{"x":1,"y":2},{"x":3,"y":4}]`},
		{"later", `["2026-01-02T03:04:05.678901234Z","1h0m0s"]`}, {"identity", `[{"a":[1,2.5,null,"x"]}]`},
		{"kinds", `[true,-8,-9007199254740993,8,18446744073709551615,1.5,2.5,"s","AQI="]`},
		{"scale", `[[1,2,3],2]`}, {"reverse", `[[1,2,3]]`}, {"flip", `[[true,false]]`}, {"transpose", `[[[1,2],[3,4]]]`},
		{"fail", `[7,"no"]`}, {"plain_error", `["oh"]`}, {"panic", `["oh"]`}, {"ack", `[9,9]`}, {"ack", `["x",1]`},
	} {
		want, wantErr := direct.CallJSON(ctx, row.function, []byte(row.arguments), nil)
		got, err := through.CallJSON(ctx, row.function, []byte(row.arguments), nil)
		if !bytes.Equal(got, want) || !sameFailure(err, wantErr) {
			t.Errorf("%s%s: %s, %v; directly %s, %v", row.function, row.arguments, got, err, want, wantErr)
		}
	}
}

// Once the gateway has heard from others, it knows which functions there are.
func TestUnknownFunction(t *testing.T) {
	p := startPair(t, gateway.Config{}, gateway.Export{})
	c := callAt(t, p.importer.listen)
	await(t, "an error that says that there is no such function", func() bool {
		code, outcome := outcomeOf(c.Call(context.Background(), "no_such", nil))
		if outcome != status.OutcomeNotExecuted {
			t.Fatalf("%v, %v", code, outcome)
		}
		return code == status.Unimplemented
	})
}

// sameFailure compares errors without their texts, which may name the server.
func sameFailure(a, b error) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := status.FromError(a), status.FromError(b)
	return x.Code == y.Code && x.Outcome == y.Outcome && fmt.Sprint(x.Details) == fmt.Sprint(y.Details)
}

// Metadata, trace context and idempotency key arrive, and metadata of the answer comes back.
func TestWhatTravelsBesideArguments(t *testing.T) {
	p := startPair(t, gateway.Config{}, gateway.Export{})
	var answer map[string][]string
	c := callAt(t, p.importer.listen).With(client.Metadata("tenant", "acme"), client.ReplyMetadata(&answer),
		client.TraceParent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), client.IdempotencyKey([16]byte{1, 2, 3}))
	ctx := context.Background()
	seen, err := client.Call[string](ctx, c, "metadata_seen")
	if err != nil || !strings.Contains(seen, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01") || !strings.Contains(seen, "acme") || !strings.Contains(seen, "[1 2 3 ") {
		t.Errorf("%s, %v", seen, err)
	}
	if _, err := client.Call[[]byte](ctx, c, "metadata_answer", 3, false); err != nil || strings.Join(answer["cost"], " ") != "7 8" {
		t.Errorf("%v, %v", answer, err)
	}
}

// A deadline and a cancellation end the context of the function, on the other machine.
func TestDeadlineAndCancel(t *testing.T) {
	p := startPair(t, gateway.Config{}, gateway.Export{})
	c := callAt(t, p.importer.listen)
	must(t, c.Call(context.Background(), "one", nil))
	ended := p.server.contexts(t)
	short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if code, _ := outcomeOf(c.Call(short, "hold", nil)); code != status.DeadlineExceeded {
		t.Errorf("a deadline: %v", code)
	}
	ended("a deadline")
	given, giveUp := context.WithCancel(context.Background())
	answered := make(chan error, 1)
	go func() { answered <- c.Call(given, "hold", nil) }()
	<-p.server.holds
	giveUp()
	if code, _ := outcomeOf(<-answered); code != status.Cancelled {
		t.Errorf("a cancellation: %v", code)
	}
	ended("a cancellation")
}

// contexts returns a function that waits until no call of hold runs any more. A call that has begun
// must be waited for by others.
func (b *backend) contexts(t *testing.T) func(what string) {
	return func(what string) {
		t.Helper()
		began := time.Now()
		await(t, "the end of a function's context", func() bool { return b.holding.Load() == 0 })
		if took := time.Since(began); took > time.Second {
			t.Errorf("after %s the context of the function ended %v later", what, took)
		}
	}
}

// Values that no message of the engine holds travel in pieces, while small calls pass by.
func TestPieces(t *testing.T) {
	p := startPair(t, gateway.Config{}, gateway.Export{})
	c := callAt(t, p.importer.listen)
	data := bytes.Repeat([]byte("0123456789abcdef"), 3<<16)
	var large sync.WaitGroup
	large.Go(func() {
		got, err := c.CallRaw(context.Background(), "echo", data, nil)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes came back as %d: %v", len(data), len(got), err)
		}
	})
	for range 20 {
		must(t, c.Call(context.Background(), "one", nil))
	}
	large.Wait()
}

// With Refuse, arguments that no message holds are refused before anything is sent.
func TestRefusal(t *testing.T) {
	p := startPair(t, gateway.Config{Large: gateway.Refuse}, gateway.Export{})
	c := callAt(t, p.importer.listen)
	must(t, c.Call(context.Background(), "one", nil))
	before := p.engine.NumSlowConsumers()
	_, err := c.CallRaw(context.Background(), "echo", make([]byte, 2<<20), nil)
	failure := status.FromError(err)
	if !errors.Is(err, status.ResourceExhausted) || failure.Outcome != status.OutcomeNotExecuted || !strings.Contains(failure.Message, "1048576") {
		t.Errorf("%v", err)
	}
	if p.engine.NumSlowConsumers() != before {
		t.Error("something was sent")
	}
	if got, err := c.CallRaw(context.Background(), "echo", make([]byte, 512<<10), nil); err != nil || len(got) != 512<<10 {
		t.Errorf("%d bytes: %v", len(got), err)
	}
}

// Of a server of which only some functions are exported, the others cannot be reached, whatever a
// caller does.
func TestSomeFunctions(t *testing.T) {
	p := startPair(t, gateway.Config{}, gateway.Export{Functions: []string{"w*", "metadata_*"}})
	c := callAt(t, p.importer.listen)
	document, err := c.Schema(context.Background())
	must(t, err)
	var names []string
	for _, f := range document.Functions {
		names = append(names, f.Name)
	}
	if got := strings.Join(names, " "); len(names) != 6 || !strings.Contains(got, "word_count") || !strings.Contains(got, gateway.StatusFunction) {
		t.Errorf("%s", got)
	}
	if who, err := client.Call[string](context.Background(), c, "who"); err != nil || who != "b" {
		t.Errorf("%q, %v", who, err)
	}
	if code, outcome := outcomeOf(c.Call(context.Background(), "one", nil)); outcome != status.OutcomeNotExecuted {
		t.Errorf("a function that is not exported: %v, %v", code, outcome)
	}
	await(t, "one connection now", func() bool { return p.exporter.Status().Exports[0].Streams == 1 })
}
