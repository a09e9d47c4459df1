package gateway_test

import (
	"context"
	"net"
	"strings"
	"testing"

	engine "github.com/nats-io/nats-server/v2/server"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/client/clienttls"
	gateway "github.com/nearcall/nearcall/gateway/nats"
	"github.com/nearcall/nearcall/server/servertls"
)

// A directPair is a server that is exported and also listens at a tls: address, and gateways of which
// one may tell that address.
type directPair struct {
	pair
	files gateway.TLS
	// exports is the Config of the gateway that exports it.
	exports gateway.Config
	// cut ends listening at the tls: address.
	cut func()
}

func startDirectPair(t *testing.T, how gateway.Direct) directPair {
	t.Helper()
	own, _ := certificates(t)
	held, err := servertls.New(servertls.Files{Certificate: own.Certificate, Key: own.Key, ClientAuthorities: own.Authorities})
	must(t, err)
	p := directPair{files: own, pair: pair{engine: startEngine(t, engine.Options{}), server: startBackend(t, "b", "", held.Option())}}
	listener, err := p.server.Listen(context.Background(), "tls:127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- p.server.Serve(ctx, listener) }()
	p.cut = func() {
		cancel()
		err := <-served
		served <- err
	}
	t.Cleanup(p.cut)
	p.exports = gateway.Config{Name: "b", Host: "b", Engine: urls(p.engine),
		Exports: []gateway.Export{{Name: "demo", Address: p.server.address, Direct: "tls:" + listener.Addr().String()}}}
	p.exporter = startGateway(t, p.exports)
	p.importer = startGateway(t, gateway.Config{Name: "a", Host: "a", Engine: urls(p.engine), Listen: here, Direct: how, DirectTLS: own})
	awaitFunction(t, p.importer, "who", 1)
	return p
}

// streams returns how many connections others have made to the server through the engine.
func (p *directPair) streams() uint64 { return p.exporter.Status().Exports[0].StreamsTotal }

// Gateways may call each other's servers directly: the engine only finds them. If that is not possible
// any more, calls go through the engine.
func TestGatewaysCallDirectly(t *testing.T) {
	p := startDirectPair(t, gateway.DirectGateways)
	c := callAt(t, p.importer.listen)
	before := p.streams()
	if counts := answers(t, c, 50); counts["b"] != 50 {
		t.Errorf("directly: %v", counts)
	}
	if made := p.streams() - before; made != 0 {
		t.Errorf("%d connections went through the engine", made)
	}
	if shown := placesOf(p.importer, "who"); len(shown) != 1 || shown[0].Direct != p.exports.Exports[0].Direct {
		t.Errorf("the status shows %+v", shown)
	}
	p.cut()
	if counts := answers(t, c, 50); counts["b"] != 50 {
		t.Errorf("without the direct address: %v", counts)
	}
	if p.streams() == before {
		t.Error("no connection went through the engine")
	}
}

// Callers may be told the address, and follow it if they want to.
func TestCallersCallDirectly(t *testing.T) {
	p := startDirectPair(t, gateway.DirectCallers)
	follows := callAt(t, p.importer.listen, client.WithDirect(client.DirectAny),
		clienttls.With(clienttls.Files{Authorities: p.files.Authorities, Certificate: p.files.Certificate, Key: p.files.Key}))
	if counts := answers(t, follows, 50); counts["b"] != 50 {
		t.Errorf("a caller that follows directions: %v", counts)
	}
	if through := callsThrough(p.importer, "who"); through > 2 {
		t.Errorf("%d of 50 calls went through the gateway", through)
	}
	stays := callAt(t, p.importer.listen)
	if counts := answers(t, stays, 50); counts["b"] != 50 || callsThrough(p.importer, "who") < 50 {
		t.Errorf("a caller that does not follow tls: addresses: %v", counts)
	}
	p.cut()
	if counts := answers(t, follows, 50); counts["b"] != 50 {
		t.Errorf("without the direct address: %v", counts)
	}
}

// When a server's direct address changes, the calls that are under way there go on.
func TestDirectAddressChanges(t *testing.T) {
	p := startDirectPair(t, gateway.DirectGateways)
	before := p.streams()
	call := p.hold(t)
	if p.streams() != before {
		t.Fatal("the call goes through the engine")
	}
	config := p.exports
	_, port, err := net.SplitHostPort(strings.TrimPrefix(config.Exports[0].Direct, "tls:"))
	must(t, err)
	config.Exports = []gateway.Export{config.Exports[0]}
	config.Exports[0].Direct = "tls:localhost:" + port
	must(t, p.exporter.Reload(config))
	await(t, "the other address", func() bool {
		members := p.importer.Status().Members
		return len(members) == 1 && len(members[0].Servers) == 1 && members[0].Servers[0].Direct == config.Exports[0].Direct && gateway.DirectOf(p.importer.Gateway) == config.Exports[0].Direct
	})
	if counts := answers(t, callAt(t, p.importer.listen), 10); counts["b"] != 10 {
		t.Errorf("at the other address: %v", counts)
	}
	close(p.server.release)
	must(t, <-call)
}
