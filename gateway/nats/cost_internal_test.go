package gateway

import (
	"fmt"
	"log/slog"
	"net/url"
	"runtime"
	"testing"
	"time"

	engine "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// The benchmarks of this file give the inputs of tools/scaling.

// inProcess starts an engine, and connects to it as a gateway does.
func inProcess(b *testing.B, connections int) (all []*nats.Conn) {
	e, err := startEmbedded(&Config{Name: "b", Prefix: defaultPrefix, Engine: Engine{Embedded: Embedded{Listen: noListener}}}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(e.Shutdown)
	for range connections {
		made, err := nats.Connect("", nats.InProcessServer(e), nats.UserInfo(ownUser, e.password))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(made.Close)
		all = append(all, made)
	}
	return all
}

// BenchmarkAnnouncement is what one announcement costs a host that hears it: its engine delivers
// it, and its gateway reads it. Publishing is included.
func BenchmarkAnnouncement(b *testing.B) {
	ends := inProcess(b, 2)
	heard := make(chan struct{}, 64)
	_, err := ends[0].Subscribe("nearcall.member", func(m *nats.Msg) {
		if _, err := parseMember(m.Data); err != nil {
			b.Error(err)
		}
		heard <- struct{}{}
	})
	if err == nil {
		err = ends[0].Flush()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(anHonest)))
	for b.Loop() {
		if err := ends[1].Publish("nearcall.member", []byte(anHonest)); err != nil {
			b.Fatal(err)
		}
		<-heard
	}
}

// BenchmarkInterest is what it takes of memory that another engine of a cluster knows of a
// subscription, and what an end of a connection between two engines takes.
func BenchmarkInterest(b *testing.B) {
	const subscriptions, connections = 10_000, 100
	for b.Loop() {
		least := clusterGrowth(b, 0, 1)
		b.ReportMetric(float64(clusterGrowth(b, subscriptions, 1)-least)/subscriptions, "B/subscription")
		b.ReportMetric(float64(clusterGrowth(b, 0, 1+connections)-least)/(2*connections), "B/end")
	}
}

// clusterGrowth returns how much more is held when a second engine has found one that has so many
// subscriptions, over so many connections.
func clusterGrowth(b *testing.B, subscriptions, connections int) int64 {
	first, address := clusterEngine(b, "a", connections, nil)
	defer first.Shutdown()
	conn, err := nats.Connect("", nats.InProcessServer(first))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	for i := range subscriptions {
		if _, err := conn.QueueSubscribe(fmt.Sprintf("nearcall.f.shop.function%d", i), "q", func(*nats.Msg) {}); err != nil {
			b.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		b.Fatal(err)
	}
	alone := heldBytes()
	second, _ := clusterEngine(b, "b", connections, address)
	defer second.Shutdown()
	for until := time.Now().Add(embeddedStart); first.NumRoutes() <= connections || int(second.NumSubscriptions()) < subscriptions; runtime.Gosched() {
		if time.Now().After(until) {
			b.Fatalf("%d of %d connections, and %d of %d subscriptions, are there within %v", first.NumRoutes(), connections+1, second.NumSubscriptions(), subscriptions, embeddedStart)
		}
	}
	return heldBytes() - alone
}

func clusterEngine(b *testing.B, name string, connections int, route *url.URL) (*engine.Server, *url.URL) {
	o := &engine.Options{ServerName: name, Host: "127.0.0.1", Port: engine.RANDOM_PORT, NoSigs: true, NoLog: true}
	o.Cluster.Name, o.Cluster.Host, o.Cluster.Port, o.Cluster.PoolSize = "c", "127.0.0.1", engine.RANDOM_PORT, connections
	if route != nil {
		o.Routes = []*url.URL{route}
	}
	made, err := engine.NewServer(o)
	if err != nil {
		b.Fatal(err)
	}
	made.Start()
	if !made.ReadyForConnections(embeddedStart) {
		b.Fatal("the engine does not get ready")
	}
	return made, &url.URL{Scheme: "nats", Host: made.ClusterAddr().String()}
}

// heldBytes is what is in use after everything else was collected, with stacks.
func heldBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
