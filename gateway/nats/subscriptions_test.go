package gateway_test

import (
	"strings"
	"testing"

	engine "github.com/nats-io/nats-server/v2/server"

	gateway "github.com/nearcall/nearcall/gateway/nats"
)

// The arithmetic of docs/scaling.md (tools/scaling) counts so many subscriptions of each gateway, and
// so many of each server that it exports, besides one for each function.
func TestSubscriptionsOfAGateway(t *testing.T) {
	const ofGateway, ofServer, ofCancellations = 6, 9, 1
	p := startPair(t, gateway.Config{}, gateway.Export{})
	awaitFunction(t, p.importer, "one", 1)
	connections, err := p.engine.Connz(&engine.ConnzOptions{Subscriptions: true})
	must(t, err)
	var counts []int
	for _, c := range connections.Conns {
		count, functions := 0, 0
		for _, subject := range c.Subs {
			if strings.HasPrefix(subject, "nearcall.f.") {
				functions++
				continue
			}
			count++
		}
		counts = append(counts, count)
		switch {
		case functions > 0 && count != ofGateway+ofServer:
			t.Errorf("%s has %d subscriptions besides those of functions, want %d: %q", c.Name, count, ofGateway+ofServer, c.Subs)
		case functions == 0 && count != ofGateway-ofCancellations:
			t.Errorf("%s, which exports nothing, has %d subscriptions, want %d: %q", c.Name, count, ofGateway-ofCancellations, c.Subs)
		}
	}
	if len(counts) != 2 {
		t.Errorf("connections of gateways: %v", counts)
	}
}
