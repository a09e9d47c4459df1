package gateway_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	engine "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	gateway "github.com/nearcall/nearcall/gateway/nats"
)

// plainClient connects to an engine without anything of Nearcall.
func plainClient(t testing.TB, e *engine.Server) *nats.Conn {
	t.Helper()
	c, err := nats.Connect(e.ClientURL())
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

// isOffered reports whether somebody serves a subject.
func isOffered(c *nats.Conn, subject, body string) bool {
	_, err := c.Request(subject, []byte(body), patience)
	return err == nil
}

// A program without Nearcall calls functions while their server is there.
func TestPlainClients(t *testing.T) {
	e := startEngine(t, engine.Options{})
	b := startBackend(t, "b", "")
	g := startGateway(t, gateway.Config{Name: "b", Zone: "west", Engine: gateway.Engine{URLs: []string{e.ClientURL()}},
		Exports: []gateway.Export{{Name: "shop", Address: b.address, Functions: []string{"a*", "who", "hold"}, Version: "1.4.0"}}})
	c := plainClient(t, e)
	await(t, "a service of the gateway", func() bool { return isOffered(c, "nearcall.f.shop.who", "") })
	answer, err := c.Request("nearcall.f.shop.add", []byte("[1, 2]"), patience)
	must(t, err)
	if string(answer.Data) != "3" {
		t.Errorf("got %s %v", answer.Data, answer.Header)
	}
	answer, err = c.Request("$SRV.PING.shop", nil, patience)
	must(t, err)
	var ping micro.Ping
	must(t, json.Unmarshal(answer.Data, &ping))
	if ping.Version != "1.4.0" || ping.Metadata["zone"] != "west" || ping.Metadata["gateway"] != "b" || len(ping.Metadata["schema"]) != 64 {
		t.Errorf("the service says %+v", ping)
	}
	if _, err := c.Request("nearcall.f.shop.md5", []byte(`"x"`), patience); err != nats.ErrNoResponders {
		t.Errorf("a function that is not exported: %v", err)
	}
	b.stop()
	await(t, "the end of the service", func() bool { return !isOffered(c, "nearcall.f.shop.who", "") })
	again := startBackend(t, "again", b.address)
	await(t, "the service again", func() bool { return isOffered(c, "nearcall.f.shop.who", "") })
	must(t, g.stop())
	if again.count() == 0 {
		t.Error("it did not call the new server")
	}
	if _, err := c.Request("nearcall.f.shop.who", nil, patience); err != nats.ErrNoResponders {
		t.Errorf("after the gateway: %v", err)
	}
}

// Two gateways share the requests, and one that stops answers those that it has.
func TestPlainClientsAtTwoGateways(t *testing.T) {
	e := startEngine(t, engine.Options{})
	first, second := startBackend(t, "first", ""), startBackend(t, "second", "")
	start := func(b *backend) *running {
		return startGateway(t, gateway.Config{Name: b.name, Engine: gateway.Engine{URLs: []string{e.ClientURL()}}, DrainTimeout: patience,
			Exports: []gateway.Export{{Name: "shop", Address: b.address}}})
	}
	g := start(first)
	c := plainClient(t, e)
	await(t, "the first service", func() bool { return isOffered(c, "nearcall.f.shop.who", "") })
	held := nats.NewMsg("nearcall.f.shop.hold")
	held.Header.Set("Nearcall-Call", "mine")
	answers, err := c.SubscribeSync(c.NewInbox())
	must(t, err)
	held.Reply = answers.Subject
	must(t, c.PublishMsg(held))
	<-first.holds
	start(second)
	await(t, "calls at the second server", func() bool { return isOffered(c, "nearcall.f.shop.who", "") && second.count() > 0 })
	g.cancel()
	await(t, "the first gateway to take no more calls", func() bool {
		before := first.count()
		for range 20 {
			if !isOffered(c, "nearcall.f.shop.who", "") {
				t.Fatal("a call was lost")
			}
		}
		return first.count() == before
	})
	if _, err := c.Request("nearcall.cancel.mine", nil, patience); err != nil {
		t.Fatal(err)
	}
	answer, err := answers.NextMsg(patience)
	must(t, err)
	if got := answer.Header.Get(micro.ErrorCodeHeader); got != "499" {
		t.Errorf("the call that was under way got %s %s", got, answer.Data)
	}
	must(t, g.stop())
}

// A call that is under way when time is up gets an answer.
func TestPlainClientsAreGivenUp(t *testing.T) {
	e := startEngine(t, engine.Options{})
	b := startBackend(t, "b", "")
	g := startGateway(t, gateway.Config{Name: "b", Engine: gateway.Engine{URLs: []string{e.ClientURL()}}, DrainTimeout: 50 * time.Millisecond,
		Exports: []gateway.Export{{Name: "shop", Address: b.address}}})
	c := plainClient(t, e)
	await(t, "the service", func() bool { return isOffered(c, "nearcall.f.shop.who", "") })
	answers, err := c.SubscribeSync(c.NewInbox())
	must(t, err)
	must(t, c.PublishRequest("nearcall.f.shop.hold", answers.Subject, nil))
	<-b.holds
	must(t, g.stop())
	answer, err := answers.NextMsg(patience)
	must(t, err)
	if got := answer.Header.Get(micro.ErrorCodeHeader); got != "503" {
		t.Errorf("got %s %s", got, answer.Data)
	}
}

// Messages that nobody can read do not fill the log.
func TestComplaintsAreBounded(t *testing.T) {
	e := startEngine(t, engine.Options{})
	b := startBackend(t, "b", "")
	var lines atomic.Int64
	startGateway(t, gateway.Config{Name: "b", Engine: gateway.Engine{URLs: []string{e.ClientURL()}}, Exports: []gateway.Export{{Name: "shop", Address: b.address}},
		Logger: slog.New(slog.NewTextHandler(lineCounter{&lines}, nil))})
	c := plainClient(t, e)
	await(t, "the service", func() bool { return isOffered(c, "nearcall.f.shop.who", "") })
	before := lines.Load()
	conn, err := net.Dial("tcp", e.Addr().String())
	must(t, err)
	defer conn.Close()
	_, err = fmt.Fprint(conn, "CONNECT {\"verbose\":false,\"headers\":true}\r\n", strings.Repeat("HPUB nearcall.cancel.x a 16 16\r\nNATS/1.0\r\nxxxx\r\n\r\n", 500))
	must(t, err)
	await(t, "a line of the log", func() bool { return lines.Load() > before })
	// The engine has passed all of them on when a later call is answered.
	answer, err := c.Request("nearcall.f.shop.one", nil, patience)
	must(t, err)
	if got := lines.Load() - before; string(answer.Data) != "1" || got > 20 {
		t.Errorf("got %s, and %d lines were logged", answer.Data, got)
	}
}

// A lineCounter counts lines of a log.
type lineCounter struct{ lines *atomic.Int64 }

func (c lineCounter) Write(line []byte) (int, error) {
	c.lines.Add(1)
	return len(line), nil
}

// A gateway whose engine is gone does not wait for it to stop.
func TestStopWithoutEngine(t *testing.T) {
	e := startEngine(t, engine.Options{})
	b := startBackend(t, "b", "")
	g := startGateway(t, gateway.Config{Name: "b", Engine: gateway.Engine{URLs: []string{e.ClientURL()}}, Exports: []gateway.Export{{Name: "shop", Address: b.address}}})
	c := plainClient(t, e)
	await(t, "the service", func() bool { return isOffered(c, "nearcall.f.shop.who", "") })
	e.Shutdown()
	await(t, "the gateway to see that its engine is gone", func() bool { return !g.Status().Engine.Connected })
	began := time.Now()
	must(t, g.stop())
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}
