package gateway_test

import (
	"context"
	"testing"

	engine "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/nearcall/nearcall/client"
	gateway "github.com/nearcall/nearcall/gateway/nats"
)

// benchmarkCalls calls a function that does nothing, from one caller or from many.
func benchmarkCalls(b *testing.B, address string, callers int) {
	c := callAt(b, address)
	one := client.Func0[int64](c, "one")
	must(b, c.With(client.WaitForReady()).Call(context.Background(), "one", nil))
	b.ReportAllocs()
	if callers == 1 {
		for b.Loop() {
			if _, err := one(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
	b.SetParallelism(callers)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := one(context.Background()); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkGateway is a call of a function of another machine, beside what NATS itself takes for a
// question and its answer. All programs are in this process.
func BenchmarkGateway(b *testing.B) {
	p := startPair(b, gateway.Config{}, gateway.Export{})
	for name, callers := range map[string]int{"1": 1, "64": 64} {
		b.Run("through-"+name, func(b *testing.B) { benchmarkCalls(b, p.importer.listen, callers) })
		b.Run("server-"+name, func(b *testing.B) { benchmarkCalls(b, p.server.address, callers) })
		b.Run("nats-"+name, func(b *testing.B) { benchmarkRequests(b, p.engine, callers) })
	}
}

func benchmarkRequests(b *testing.B, broker *engine.Server, callers int) {
	var ends [2]*nats.Conn
	for i := range ends {
		made, err := nats.Connect(broker.ClientURL())
		must(b, err)
		defer made.Close()
		ends[i] = made
	}
	_, err := ends[1].Subscribe("question", func(m *nats.Msg) { _ = m.Respond(m.Data) })
	must(b, err)
	must(b, ends[1].Flush())
	ask := func() error {
		_, err := ends[0].Request("question", []byte("12345678"), patience)
		return err
	}
	if callers == 1 {
		for b.Loop() {
			must(b, ask())
		}
		return
	}
	b.SetParallelism(callers)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if err := ask(); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkEmbedded is a call between gateways with engines of their own.
func BenchmarkEmbedded(b *testing.B) {
	s := startBackend(b, "b", "")
	g := startGateway(b, gateway.Config{Name: "b", Host: "b", Listen: here, Engine: gateway.Engine{Embedded: gateway.Embedded{Listen: "127.0.0.1:0"}},
		Exports: []gateway.Export{{Name: "demo", Address: s.address}}})
	a := startGateway(b, gateway.Config{Name: "a", Host: "a", Engine: gateway.Engine{URLs: []string{g.Status().Engine.URL}}, Listen: here})
	awaitFunction(b, a, "one", 1)
	benchmarkCalls(b, a.listen, 1)
}
