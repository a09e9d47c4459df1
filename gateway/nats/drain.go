package gateway

import (
	"context"
	"sync"
	"time"
)

const (
	// drainLook is how often a gateway that stops looks whether others have still calls here.
	drainLook = 20 * time.Millisecond
	// goodbye bounds how long the last messages may take.
	goodbye = time.Second
)

// drain announces that the gateway stops, and waits for the calls of others and of local callers, at
// most for the drain timeout. Then it ends everything, with what stop ends.
func (g *Gateway) drain(stop context.CancelFunc) {
	g.reloading.Lock() // Reload begins nothing from now on
	g.draining.Store(true)
	g.reloading.Unlock()
	g.announcer.announce()
	for _, e := range g.exported() {
		e.withdraw()
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.config.DrainTimeout)
	defer cancel()
	var plain sync.WaitGroup
	plain.Go(func() { g.plain.drain(ctx) })
	g.importing.stop(ctx)
	plain.Wait()
	for g.hub.Streams() > 0 && ctx.Err() == nil {
		g.remotes.set(nil) // closes those whose calls have ended
		sleep(ctx, drainLook)
	}
	stop()
	if err := g.link.Publish(g.subjects.bye(), []byte(g.hub.Instance())); err == nil {
		_ = g.link.flush(context.Background(), goodbye)
	}
	g.end()
}

// end closes what was opened.
func (g *Gateway) end() {
	for _, e := range g.exported() {
		e.withdraw()
		_ = e.client.Close()
	}
	for _, e := range g.former {
		_ = e.client.Close()
	}
	g.remotes.close()
	if g.hub != nil {
		g.hub.Close()
	}
	g.link.close()
}
