package gateway_test

import (
	"strings"
	"testing"

	engine "github.com/nats-io/nats-server/v2/server"

	gateway "github.com/nearcall/nearcall/gateway/nats"
)

// What is reloaded applies to what is new, and disturbs nothing that stays.
func TestReload(t *testing.T) {
	e := startEngine(t, engine.Options{})
	stays, goes, comes := startBackend(t, "stays", ""), startBackend(t, "goes", ""), startBackend(t, "comes", "")
	config := gateway.Config{Name: "g", Zone: "west", Listen: here, Engine: gateway.Engine{URLs: []string{e.ClientURL()}}, Logger: logger(t, "g"),
		Exports: []gateway.Export{{Name: "stays", Address: stays.address, Functions: []string{"who"}}, {Name: "other", Address: goes.address, Functions: []string{"a*"}}}}
	g := startGateway(t, config)
	config.Listen = g.listen
	c := plainClient(t, e)
	await(t, "the first exports", func() bool {
		return isOffered(c, "nearcall.f.stays.who", "") && isOffered(c, "nearcall.f.other.add", "[1, 2]")
	})
	held, err := c.SubscribeSync(c.NewInbox())
	must(t, err)
	must(t, c.PublishRequest("nearcall.f.other.ack", held.Subject, []byte("[1, 2]")))
	must(t, c.Flush()) // the engine has passed it on

	config.Zone = "east"
	config.Exports = []gateway.Export{config.Exports[0], {Name: "other", Address: comes.address, Functions: []string{"who"}}}
	must(t, g.Reload(config))
	await(t, "the new export", func() bool { return isOffered(c, "nearcall.f.other.who", "") })
	await(t, "the end of the former one", func() bool { return !isOffered(c, "nearcall.f.other.add", "[1, 2]") })
	if comes.count() == 0 || !isOffered(c, "nearcall.f.stays.who", "") {
		t.Errorf("%d calls reached the new server", comes.count())
	}
	if _, err := held.NextMsg(patience); err != nil {
		t.Errorf("a call from before: %v", err)
	}
	if status := g.Status(); status.Zone != "east" || len(status.Exports) != 2 {
		t.Errorf("the status is %+v", status)
	}

	for part, change := range map[string]func(*gateway.Config){
		"Listen": func(c *gateway.Config) { c.Listen = "unix:/elsewhere" },
		"Engine": func(c *gateway.Config) { c.Engine.URLs = []string{"nats://127.0.0.1:1"} },
		"name":   func(c *gateway.Config) { c.Exports = []gateway.Export{{Name: "a.b", Address: "unix:/s"}} },
	} {
		wrong := config
		change(&wrong)
		if err := g.Reload(wrong); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", part, err)
		}
	}
	must(t, g.stop())
	if err := g.Reload(config); err == nil || !strings.Contains(err.Error(), "runs") {
		t.Errorf("after the end: %v", err)
	}
}
