package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	engine "github.com/nats-io/nats-server/v2/server"

	"github.com/nearcall/nearcall/client"
	gateway "github.com/nearcall/nearcall/gateway/nats"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// callers calls who so many times, from several goroutines' worth of calls one after the other, and
// returns how often each server answered.
func answers(t testing.TB, c *client.Client, calls int) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for range calls {
		who, err := client.Call[string](context.Background(), c, "who")
		if err != nil {
			t.Fatalf("after %v: %v", counts, err)
		}
		counts[who]++
	}
	return counts
}

// callsThrough returns how many calls of a function a gateway has passed on.
func callsThrough(r *running, function string) (calls uint64) {
	for _, p := range placesOf(r, function) {
		calls += p.CallsTotal
	}
	return calls
}

// placesOf returns the servers at which a gateway's callers can call a function.
func placesOf(r *running, function string) (places []gateway.PlaceStatus) {
	for _, f := range r.Status().Functions {
		if f.Name == function {
			places = append(places, f.Places...)
		}
	}
	return places
}

// A function that this machine serves too does not leave it. When the server here stops, others take
// the calls, and when it is back it has them again.
func TestLocalFirst(t *testing.T) {
	broker := startEngine(t, engine.Options{})
	far, near := startBackend(t, "far", ""), startBackend(t, "near", "")
	startGateway(t, gateway.Config{Name: "far", Host: "far", Engine: urls(broker), Exports: []gateway.Export{{Name: "demo", Address: far.address}}})
	a := startGateway(t, gateway.Config{Name: "near", Host: "near", Engine: urls(broker), Listen: here, Exports: []gateway.Export{{Name: "demo", Address: near.address}}})
	awaitFunction(t, a, "who", 2)
	c := callAt(t, a.listen)
	if counts := answers(t, c, 50); counts["near"] != 50 {
		t.Errorf("with a server here: %v", counts)
	}
	// The gateway has left the path: it tells callers where the server is.
	if through := callsThrough(a, "who"); through > 2 {
		t.Errorf("%d of 50 calls of a function of this machine went through the gateway", through)
	}
	through := callAt(t, a.listen, client.WithDirect(client.DirectOff))
	if counts := answers(t, through, 50); counts["near"] != 50 || callsThrough(a, "who") < 50 {
		t.Errorf("a caller that follows no directions: %v", counts)
	}
	near.stop()
	if counts := answers(t, through, 50); counts["far"] != 50 {
		t.Errorf("without it, for a caller that follows no directions: %v", counts)
	}
	if counts := answers(t, c, 50); counts["far"] != 50 {
		t.Errorf("without it: %v", counts)
	}
	awaitFunction(t, a, "who", 1) // otherwise there still are two when the next one begins
	startBackend(t, "again", near.address)
	awaitFunction(t, a, "who", 2)
	if counts := answers(t, c, 50); counts["again"] != 50 {
		t.Errorf("when it is back: %v", counts)
	}
}

// A server here that has no room for a call leaves it to others. One that is draining does so too,
// while it finishes what it has.
func TestLocalServerIsFullAndDraining(t *testing.T) {
	broker := startEngine(t, engine.Options{})
	far, near := startBackend(t, "far", ""), startBackend(t, "near", "", server.WithCallsInFlight(4, 4))
	startGateway(t, gateway.Config{Name: "far", Host: "far", Engine: urls(broker), Exports: []gateway.Export{{Name: "demo", Address: far.address}}})
	a := startGateway(t, gateway.Config{Name: "near", Host: "near", Engine: urls(broker), Listen: here, Exports: []gateway.Export{{Name: "demo", Address: near.address}}})
	awaitFunction(t, a, "who", 2)
	c := callAt(t, a.listen, client.WithDirect(client.DirectOff)) // each connection has room for four calls
	held := make(chan error, 4)
	for range 4 {
		go func() { held <- c.Call(context.Background(), "hold", nil) }()
	}
	for range 4 {
		<-near.holds
	}
	if counts := answers(t, c, 20); counts["far"] != 20 {
		t.Errorf("with a full server here: %v", counts)
	}
	shut := make(chan error, 1)
	go func() { shut <- near.Shutdown(context.Background()) }()
	await(t, "the server to be known as draining", func() bool { return a.Status().Exports[0].State != "up" })
	if counts := answers(t, c, 20); counts["far"] != 20 {
		t.Errorf("with a draining server here: %v", counts)
	}
	close(near.release)
	for range 4 {
		must(t, <-held)
	}
	must(t, <-shut)
}

// Servers on the same host take the calls first, then those in the same zone, then any others.
func TestLocality(t *testing.T) {
	broker := startEngine(t, engine.Options{})
	exporters := map[string]*running{}
	for _, at := range []struct{ name, host, zone string }{{"host", "a", "x"}, {"zone", "b", "y"}, {"any1", "c", "z"}, {"any2", "d", ""}} {
		b := startBackend(t, at.name, "")
		exporters[at.name] = startGateway(t, gateway.Config{Name: at.name, Host: at.host, Zone: at.zone, Engine: urls(broker),
			Exports: []gateway.Export{{Name: "demo", Address: b.address}}})
	}
	a := startGateway(t, gateway.Config{Name: "caller", Host: "a", Zone: "y", Engine: urls(broker), Listen: here})
	awaitFunction(t, a, "who", 4)
	c := callAt(t, a.listen)
	if counts := answers(t, c, 50); counts["host"] != 50 {
		t.Errorf("with a server on the same host: %v", counts)
	}
	must(t, exporters["host"].stop())
	if counts := answers(t, c, 50); counts["zone"] != 50 {
		t.Errorf("with a server in the same zone: %v", counts)
	}
	must(t, exporters["zone"].stop())
	if counts := answers(t, c, 200); counts["any1"] < 50 || counts["any2"] < 50 {
		t.Errorf("with two servers far away: %v", counts)
	}
}

// Servers that a gateway has itself form a cluster. Functions are found through servers in between,
// and when one of the cluster ends.
func TestClusterOfEmbeddedEngines(t *testing.T) {
	seed := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	embedded := func(listen string, routes ...string) gateway.Engine {
		return gateway.Engine{Embedded: gateway.Embedded{Listen: "127.0.0.1:0", ClusterListen: listen, Routes: routes}}
	}
	b, d := startBackend(t, "b", ""), startBackend(t, "d", "")
	first := startGateway(t, gateway.Config{Name: "b", Host: "b", Engine: embedded(seed), Exports: []gateway.Export{{Name: "demo", Address: b.address}}})
	startGateway(t, gateway.Config{Name: "d", Host: "d", Engine: embedded("127.0.0.1:0", "nats://"+seed), Exports: []gateway.Export{{Name: "demo", Address: d.address}}})
	a := startGateway(t, gateway.Config{Name: "a", Host: "a", Engine: embedded("127.0.0.1:0", "nats://"+seed), Listen: here})
	awaitFunction(t, a, "who", 2)
	c := callAt(t, a.listen)
	if counts := answers(t, c, 100); counts["b"] < 20 || counts["d"] < 20 {
		t.Errorf("three engines: %v", counts)
	}
	must(t, first.stop())
	if counts := answers(t, c, 100); counts["d"] != 100 {
		t.Errorf("without the engine to which the others connected: %v", counts)
	}
}

// While the functions of a cluster change, calls go on: callers pass from one local server to the
// next.
func TestFunctionsChangeUnderLoad(t *testing.T) {
	p := startPair(t, gateway.Config{}, gateway.Export{})
	ctx, cancel := context.WithCancel(context.Background())
	failures := make(chan error, 8)
	for range 8 {
		c := callAt(t, p.importer.listen)
		go func() {
			for ctx.Err() == nil {
				if err := c.Call(context.Background(), "who", nil); err != nil {
					failures <- err
					return
				}
			}
			failures <- nil
		}()
	}
	for range 100 {
		before := p.server.count()
		must(t, gateway.Renew(p.importer.Gateway))
		await(t, "more calls", func() bool { return p.server.count() > before+8 })
	}
	cancel()
	for range 8 {
		must(t, <-failures)
	}
}

// However many functions a server has, connecting to it is tried once by each of its gateways.
func TestServerHasOnePlaceForEachGateway(t *testing.T) {
	p := startPair(t, gateway.Config{}, gateway.Export{})
	if counts := gateway.PlacesOf(p.importer.Gateway); len(counts) != 1 || counts[0] != 1 {
		t.Errorf("the places of servers are %v", counts)
	}
}

// While a description changes, calls by the former one still go to the servers that have it.
func TestCallsWhileDescriptionChanges(t *testing.T) {
	e := startEngine(t, engine.Options{})
	serve := func(name string, register func(*server.Server)) {
		address := "unix:" + filepath.Join(t.TempDir(), "s")
		s, err := server.New(server.WithLogger(slog.New(slog.DiscardHandler)))
		must(t, err)
		register(s)
		listener, err := s.Listen(context.Background(), address)
		must(t, err)
		served := make(chan error, 1)
		go func() { served <- s.Serve(context.Background(), listener) }()
		t.Cleanup(func() { s.Close(); <-served })
		startGateway(t, gateway.Config{Name: name, Host: name, Engine: urls(e), Exports: []gateway.Export{{Name: "demo", Address: address}}})
	}
	serve("b", func(s *server.Server) { s.Register("version", func(int64) string { return "former" }) })
	a := startGateway(t, gateway.Config{Name: "a", Host: "a", Engine: urls(e), Listen: here})
	awaitFunction(t, a, "version", 1)
	c, ctx := callAt(t, a.listen), context.Background()
	known, err := c.Describe(ctx, "version")
	must(t, err)
	must(t, gateway.Renew(a.Gateway)) // so that the next one has to wait
	for _, name := range []string{"c", "d"} {
		serve(name, func(s *server.Server) { s.Register("version", func(float64) string { return "new" }) })
	}
	await(t, "the new description", func() bool {
		result, err := c.CallEncoded(ctx, known, []byte{0x91, 1}, nil)
		if code, _ := outcomeOf(err); code == status.Aborted {
			former := known
			known, err = c.Describe(ctx, "version")
			must(t, err)
			if known.Hash == former.Hash {
				t.Fatal("a call by the description that the gateway gives was refused")
			}
			return false
		}
		must(t, err)
		return bytes.Contains(result, []byte("new"))
	})
}
