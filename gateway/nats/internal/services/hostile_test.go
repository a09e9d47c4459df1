package services_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	engine "github.com/nats-io/nats-server/v2/server"

	"github.com/nearcall/nearcall/gateway/nats/internal/services"
)

// A rawPublisher speaks the protocol of NATS itself, because client libraries refuse to send what it
// sends.
type rawPublisher struct {
	conn   net.Conn
	random *rand.Rand
}

func newRawPublisher(t testing.TB, e *engine.Server, seed uint64) *rawPublisher {
	t.Helper()
	conn, err := net.DialTimeout("tcp", e.Addr().String(), patience)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprint(conn, "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\n")
	must(t, err)
	return &rawPublisher{conn, rand.New(rand.NewPCG(seed, 1))}
}

// publish sends a message whose header and body are made of pieces that mean something, and of others.
func (p *rawPublisher) publish(t testing.TB) {
	t.Helper()
	subjects := []string{"nearcall.f.demo.add", "nearcall.f.demo.echo", "nearcall.f.demo.fail", "nearcall.cancel.mine", "nearcall.cancel.x", "$SRV.INFO.demo", "$SRV.STATS", "$SRV.PING.demo.x"}
	pieces := []string{"NATS/1.0\r\n", "NATS/1.0 503\r\n", "Nearcall-Timeout-Ms: 5\r\n", "Nearcall-Timeout-Ms: -1\r\n", "Nearcall-Call: mine\r\n", "traceparent: 00-\r\n", "Nearcall-Metadata-: x\r\n",
		"Nearcall-Metadata-a: \x00\xff\r\n", ": \r\n", "no colon\r\n", strings.Repeat("Nearcall-Metadata-a: b\r\n", 300), "\r\n", "\r\n", "\x00"}
	bodies := []string{"[1, 2]", "", "[", "]", "[[[[[[[[", strings.Repeat("[", 5000), `{"a":`, `"\ud800"`, "\xff\xfe", `[1, "` + strings.Repeat("x", 3000) + `"]`, "null", "1e999", `["AAAA"]`}
	var header strings.Builder
	if p.random.IntN(4) > 0 {
		header.WriteString(pieces[p.random.IntN(2)])
	}
	for range p.random.IntN(4) {
		header.WriteString(pieces[p.random.IntN(len(pieces))])
	}
	header.WriteString("\r\n")
	body := []byte(bodies[p.random.IntN(len(bodies))])
	if len(body) > 0 && p.random.IntN(3) == 0 {
		body[p.random.IntN(len(body))] ^= byte(1 << p.random.IntN(8))
	}
	_, err := fmt.Fprintf(p.conn, "HPUB %s reply.to.nobody %d %d\r\n%s%s\r\n", subjects[p.random.IntN(len(subjects))], header.Len(), header.Len()+len(body), header.String(), body)
	must(t, err)
}

// Whatever is sent to the subjects of a service, others are served, and nothing is left of it.
func TestHostileMessages(t *testing.T) {
	e := startEngine(t, engine.Options{})
	s := startAt(t, e, serve(t, registerAll), services.Config{Workers: services.NewWorkers(1000)})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	p := newRawPublisher(t, e, seed)
	before := runtime.NumGoroutine()
	for range 8 {
		for range 100 {
			p.publish(t)
		}
		if got := s.call(t, "add", "[1, 2]"); string(got.Data) != "3" {
			t.Fatalf("got %s %v", got.Data, got.Header)
		}
	}
	for until := time.Now().Add(patience); runtime.NumGoroutine() > before+10; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%d goroutines became %d", before, runtime.NumGoroutine())
		}
	}
	total := 0
	for _, endpoint := range s.Statistics().Endpoints {
		total += endpoint.NumRequests
	}
	if total < 100 {
		t.Errorf("only %d requests arrived", total)
	}
}
