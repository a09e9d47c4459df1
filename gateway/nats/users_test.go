package gateway_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	gateway "github.com/nearcall/nearcall/gateway/nats"
)

// Programs that connect to a gateway's own engine can call, and can neither listen to gateways nor
// speak as one of them.
func TestProgramsAtOwnEngine(t *testing.T) {
	b := startBackend(t, "b", "")
	g := startGateway(t, gateway.Config{Name: "b", Host: "b", Exports: []gateway.Export{{Name: "demo", Address: b.address}},
		Engine: gateway.Engine{Embedded: gateway.Embedded{Listen: "127.0.0.1:0"}}})
	await(t, "the gateway to be connected to its own engine", func() bool { return g.Status().Engine.URL != "" })
	refused := refusals{}
	c, err := nats.Connect(g.Status().Engine.URL, nats.ErrorHandler(refused.note))
	must(t, err)
	t.Cleanup(c.Close)
	await(t, "the service", func() bool { return isOffered(c, "nearcall.f.demo.who", "") && isOffered(c, "$SRV.PING.demo", "") })

	tried := 0
	for _, subject := range []string{">", "nearcall.>", "nearcall.b.>", "nearcall.f.demo.who", "nearcall.member"} {
		_, err := c.SubscribeSync(subject)
		must(t, err)
		tried++
	}
	for _, subject := range []string{"nearcall.member", "nearcall.bye", "nearcall.who", "nearcall.b.x.y", "nearcall.nobody.x.y"} {
		must(t, c.Publish(subject, nil))
		tried++
	}
	await(t, "a refusal of each", func() bool { return refused.count() == tried })

	if _, err := nats.Connect(g.Status().Engine.URL, nats.UserInfo("gateway", "a guess")); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("as the gateway: %v", err)
	}
}

// A gateway at the own engine of another gateway is a program there, which cannot work. It says so, and
// what to do.
func TestGatewayAtOwnEngineOfAnother(t *testing.T) {
	b := startBackend(t, "b", "")
	other := startGateway(t, gateway.Config{Name: "b", Host: "b", Exports: []gateway.Export{{Name: "demo", Address: b.address}},
		Engine: gateway.Engine{Embedded: gateway.Embedded{Listen: "127.0.0.1:0"}}})
	await(t, "the engine", func() bool { return other.Status().Engine.URL != "" })
	engine := gateway.Engine{URLs: []string{other.Status().Engine.URL}}
	a := startGateway(t, gateway.Config{Name: "a", Host: "a", Listen: here, Engine: engine})
	await(t, "a status that says what to do", func() bool { return strings.Contains(a.Status().Engine.Error, "--route") })
	expectRefusal(t, engine, "--route")
}

// refusals counts what the engine does not permit.
type refusals struct {
	mu   sync.Mutex
	many int
}

func (r *refusals) note(_ *nats.Conn, _ *nats.Subscription, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(err, nats.ErrPermissionViolation) {
		r.many++
	}
}

func (r *refusals) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.many
}
