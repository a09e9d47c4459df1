package gateway

import (
	"context"
	"sync"

	"github.com/nearcall/nearcall/gateway/nats/internal/services"
)

// plainCallers are what programs without Nearcall use of a gateway.
type plainCallers struct {
	mu sync.Mutex
	// calls are those that can be cancelled, once a server is exported.
	calls *services.Calls
	// all are the services that take requests, or have calls under way.
	all map[*services.Service]struct{}
}

// serveEndpoints lets programs without Nearcall call the functions of an exported server, until
// stop is called. It is called whenever the server is there, with what it has then. stop does not wait
// for calls that are under way.
func (g *Gateway) serveEndpoints(_ context.Context, e *exported) (stop func(), err error) {
	p := &g.plain
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == nil {
		if p.calls, err = services.NewCalls(g.link.Conn, g.config.Prefix); err != nil {
			p.calls = nil
			return nil, err
		}
	}
	service, err := services.Start(services.Config{
		Connection: g.link.Conn, Prefix: g.config.Prefix, Name: e.config.Name, Version: e.config.Version, Metadata: g.serviceMetadata(e),
		Client: e.client, Functions: e.functions(), Workers: e.workers, Calls: p.calls, Logger: g.log,
	})
	if err != nil {
		return nil, err
	}
	if p.all == nil {
		p.all = map[*services.Service]struct{}{}
	}
	p.all[service] = struct{}{}
	return func() { g.stopService(service) }, nil
}

// serviceMetadata are what others are told of a service.
func (g *Gateway) serviceMetadata(e *exported) map[string]string {
	metadata := map[string]string{"gateway": g.config.Name, "instance": g.hub.Instance(), "host": g.config.Host, "schema": e.schemaHash()}
	if zone := g.labels().zone; zone != "" {
		metadata["zone"] = zone
	}
	if e.config.Direct != "" {
		metadata["direct"] = e.config.Direct
	}
	return metadata
}

// stopService takes no more requests for a service, and ends it beside everything else. If the gateway
// stops meanwhile, drain ends it sooner.
func (g *Gateway) stopService(service *services.Service) {
	service.Withdraw()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), replacedDrain)
		defer cancel()
		service.Stop(ctx)
		g.plain.mu.Lock()
		defer g.plain.mu.Unlock()
		delete(g.plain.all, service)
	}()
}

// drain waits until calls of programs without Nearcall are answered. When ctx ends, those that are left
// are given up.
func (p *plainCallers) drain(ctx context.Context) {
	p.mu.Lock()
	var stopping sync.WaitGroup
	for service := range p.all {
		stopping.Go(func() { service.Stop(ctx) })
	}
	calls := p.calls
	p.mu.Unlock()
	stopping.Wait()
	if calls != nil {
		calls.Close()
	}
}
