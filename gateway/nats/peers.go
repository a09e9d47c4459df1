package gateway

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// peerLook is how often gateways are looked for whose callers have connections here.
const peerLook = 2 * time.Second

// peers are the other gateways that have connections to servers of this one. A gateway that was
// killed says nothing, and while a function runs there is nothing to say to it either. So the engine
// is asked now and then whether anybody is there: it answers at once if not. The functions that run
// for that gateway's callers then end, instead of going on until their deadlines.
type peers struct {
	gateway *Gateway

	mu    sync.Mutex
	conns map[string]map[net.Conn]struct{} // by the instance of the other hub
}

func newPeers(g *Gateway) *peers {
	return &peers{gateway: g, conns: map[string]map[net.Conn]struct{}{}}
}

// instanceOf returns the hub at the other end of a connection.
func instanceOf(conn net.Conn) string {
	instance, _, _ := strings.Cut(conn.RemoteAddr().String(), "/")
	return instance
}

// enter notes a connection of another gateway. leave forgets it.
func (p *peers) enter(conn net.Conn) (leave func()) {
	instance := instanceOf(conn)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns[instance] == nil {
		p.conns[instance] = map[net.Conn]struct{}{}
	}
	p.conns[instance][conn] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if delete(p.conns[instance], conn); len(p.conns[instance]) == 0 {
			delete(p.conns, instance)
		}
	}
}

// subscribe begins to listen to the engine's answers.
func (p *peers) subscribe(to *nats.Conn) error {
	_, err := to.Subscribe(p.gateway.subjects.nobody(p.gateway.hub.Instance(), "*"), func(m *nats.Msg) {
		if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
			p.lost(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
		}
	})
	return err
}

// run asks until ctx ends.
func (p *peers) run(ctx context.Context) {
	for ctx.Err() == nil {
		sleep(ctx, peerLook)
		for _, instance := range p.all() {
			g := p.gateway
			// The other hub ignores what is no message of a stream. If the engine does not take it,
			// all connections end by themselves.
			_ = g.link.PublishRequest(g.subjects.hub(instance), g.subjects.nobody(g.hub.Instance(), instance), nil)
		}
	}
}

func (p *peers) all() (instances []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for instance := range p.conns {
		instances = append(instances, instance)
	}
	return instances
}

// lost ends the connections of a gateway that is not there any more.
func (p *peers) lost(instance string) {
	p.mu.Lock()
	var conns []net.Conn
	for conn := range p.conns[instance] {
		conns = append(conns, conn)
	}
	p.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
	}
	p.gateway.catalogue.gone(instance)
}
