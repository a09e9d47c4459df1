package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

const (
	// generationPause is how often the local server is replaced at most: each time its callers
	// connect anew.
	generationPause = time.Second
	// retirePause is how long a server that was replaced goes on.
	retirePause = 100 * time.Millisecond
	// replacedDrain is how long the calls of a server that was replaced may go on. Whoever calls has
	// done nothing to end them, so it is as long as servers allow.
	replacedDrain = wire.DrainTimeoutMsCeiling * time.Millisecond
	// settling is for how long a gateway that has just found its engine does not say that there is
	// no function of some name.
	settling = 2 * time.Second
)

// An imported function is one that local callers can call. With another description it is another
// one, because servers with that description would refuse calls by this one.
type imported struct {
	function *client.Function
	route    *route
	seenMs   uint64 // when there was a server of it last
}

// A generation is one of the local servers of a gateway, and how it gets connections.
type generation struct {
	server *server.Server
	view   *inlet
	serves map[string]*imported // by name
}

// An importing is the local server of a gateway: one after the other, because the functions of a
// server are fixed. Callers go over to the next one as they do whenever a server is replaced.
type importing struct {
	gateway *Gateway
	door    *door

	// mu protects what follows.
	mu        sync.Mutex
	functions map[string]*imported
	unfit     map[string]bool // hashes of functions that cannot be passed on
	current   *generation
	all       map[*generation]struct{} // those that serve, with those that were replaced
	renewedMs uint64
	leftovers bool // what is served is not what there is
	// stopped is set when no other server may begin, because stop waits for those that there are.
	stopped bool
	serving sync.WaitGroup
}

func newImporting(g *Gateway) *importing {
	return &importing{gateway: g, functions: map[string]*imported{}, unfit: map[string]bool{}, all: map[*generation]struct{}{}}
}

// start listens, and serves what is known so far.
func (i *importing) start(ctx context.Context) error {
	if i.gateway.config.Listen == "" {
		return nil
	}
	s, err := server.New(i.options()...)
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	listener, err := s.Listen(ctx, i.gateway.config.Listen)
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	i.door = newDoor(listener)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.gateway.log.Info("serving functions of this and of other machines", "address", i.gateway.config.Listen)
	err = i.renewLocked()
	i.renewedMs = 0 // nobody knows it yet, so the next one need not wait
	return err
}

func (i *importing) options() []server.Option {
	c := &i.gateway.config
	options := []server.Option{server.WithLogger(slog.New(successions{i.gateway.log.Handler()})), server.WithName("nearcall gateway"), server.WithDrainTimeout(replacedDrain),
		server.WithUnknownFunctions(i.unknown)}
	if c.Observer != nil {
		options = append(options, server.WithObserver(c.Observer))
	}
	return append(options, c.Server...)
}

// learn makes the local server serve what there is.
func (i *importing) learn(offers map[string]*offer) {
	if i.door == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	changed := i.enterLocked(offers)
	i.leadLocked(offers)
	if !changed && !i.leftovers {
		return
	}
	if i.leftovers = i.tooSoonLocked(); i.leftovers {
		return
	}
	if err := i.renewLocked(); err != nil {
		i.gateway.log.Error("functions of other machines cannot be served", "error", err)
		return
	}
	i.gateway.log.Info("the functions that are served have changed", "functions", len(i.functions))
}

// enterLocked notes which functions there are, and reports whether they are others than before. A
// function whose servers are all gone stays for a while, because its callers should be told that,
// and not that there is no such function.
func (i *importing) enterLocked(offers map[string]*offer) (changed bool) {
	nowMs := i.gateway.clock.Ms()
	for name, o := range offers {
		known := i.functions[name]
		switch {
		case i.isUnfitLocked(o.function):
			continue
		case known == nil || known.function.Hash != o.function.Hash:
			known = &imported{function: o.function, route: newRoute(i.gateway, name)}
			i.functions[name] = known
			changed = true
		}
		known.seenMs = nowMs
	}
	for name, known := range i.functions {
		if offers[name] == nil && nowMs-known.seenMs > wire.MemberSilenceMs {
			delete(i.functions, name)
			changed = true
		}
	}
	return changed
}

// isUnfitLocked reports whether a function cannot be passed on, which a server says of it.
func (i *importing) isUnfitLocked(f *client.Function) bool {
	unfit, known := i.unfit[f.Hash]
	if !known {
		err := canForward(f)
		if unfit = err != nil || f.Name == StatusFunction; unfit {
			i.gateway.log.Info("a function of another machine is not served", "function", f.Name, "reason", err)
		}
		if len(i.unfit) >= wire.FunctionsMax {
			clear(i.unfit)
		}
		i.unfit[f.Hash] = unfit
	}
	return unfit
}

// canForward returns why calls of a function cannot be passed on.
func canForward(f *client.Function) error {
	trial, err := server.New()
	if err != nil {
		return err
	}
	return trial.RegisterForwarded(f.JSON(), newRoute(nil, f.Name).forward)
}

// leadLocked makes calls go to the servers that there are.
func (i *importing) leadLocked(offers map[string]*offer) {
	chosen := map[*imported][]place{}
	local := map[*imported][]*exported{}
	var all []place
	for known := range i.calledLocked() {
		chosen[known] = nil
		if o := offers[known.function.Name]; o != nil && o.described[known.function.Hash] != nil {
			o = o.described[known.function.Hash]
			chosen[known], local[known] = known.route.nearest(o.places), o.local
			all = append(all, chosen[known]...)
		}
	}
	i.gateway.remotes.set(all)
	for known, places := range chosen {
		known.route.lead(local[known], places)
	}
}

// calledLocked returns the functions that callers call or will call. Those of servers that were
// replaced, or are about to be, may have former descriptions.
func (i *importing) calledLocked() map[*imported]struct{} {
	called := map[*imported]struct{}{}
	for _, known := range i.functions {
		called[known] = struct{}{}
	}
	for g := range i.all {
		for _, known := range g.serves {
			called[known] = struct{}{}
		}
	}
	return called
}

// renewLocked serves the functions that are known by a new server, and lets the former one finish
// its calls. A gateway that stops begins none.
func (i *importing) renewLocked() error {
	if i.stopped {
		return nil
	}
	s, err := server.New(i.options()...)
	if err != nil {
		return err
	}
	if err := s.Register(StatusFunction, i.gateway.statusText, server.Idempotent(), server.Doc("What this gateway knows, in JSON.")); err != nil {
		return err
	}
	for _, known := range i.functions {
		if err := s.RegisterForwarded(known.function.JSON(), known.route.forward, i.gateway.elsewhere(known)...); err != nil {
			return err
		}
	}
	next, former := &generation{s, i.door.view(), maps.Clone(i.functions)}, i.current
	i.all[next] = struct{}{}
	i.serving.Go(func() {
		defer i.ended(next)
		if err := s.Serve(context.Background(), next.view); err != nil && !errors.Is(err, server.ErrServerClosed) {
			i.gateway.log.Warn("the local server has ended", "error", err)
		}
	})
	if former != nil {
		former.view.pause()
		i.serving.Go(former.retire)
	}
	i.current, i.renewedMs, i.leftovers = next, i.gateway.clock.Ms(), false
	return nil
}

func (i *importing) ended(g *generation) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.all, g)
}

// retire ends a server that was replaced, and gets no more connections. Callers that have connected
// just now are let in first, because those that are turned away have to try again.
func (g *generation) retire() {
	time.Sleep(retirePause)
	_ = g.server.Shutdown(context.Background())
}

// hasLeftovers reports whether learn has something to do although nothing has changed.
func (i *importing) hasLeftovers() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.leftovers && !i.tooSoonLocked()
}

// tooSoonLocked reports whether the local server was replaced just now.
func (i *importing) tooSoonLocked() bool {
	return i.gateway.clock.Ms()-i.renewedMs < uint64(generationPause.Milliseconds())
}

// unknown is what callers are told of a function that is not served.
func (i *importing) unknown(name string) error {
	if why := i.gateway.link.why(); why != nil {
		return notExecuted(status.Unavailable, "whether another machine has a function %q is not known, because the gateway cannot use its engine: %w", name, why)
	}
	if i.gateway.isSettling() {
		return notExecuted(status.Unavailable, "whether another machine has a function %q is not known yet: the gateway has just found its engine", name)
	}
	return nil
}

// stop waits until the calls of local callers have ended, or ctx, which ends those that are left.
func (i *importing) stop(ctx context.Context) {
	if i.door == nil {
		return
	}
	i.mu.Lock()
	i.stopped = true
	_ = i.door.close()
	for g := range i.all {
		i.serving.Go(func() {
			if err := g.server.Shutdown(ctx); err != nil {
				_ = g.server.Close()
			}
		})
	}
	i.mu.Unlock()
	i.serving.Wait()
	i.gateway.log.Info("stopped", "address", i.gateway.config.Listen)
}

// status returns the functions that local callers can call.
func (i *importing) status() []FunctionStatus {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := []FunctionStatus{}
	if i.current != nil {
		for name, known := range i.current.serves {
			if i.functions[name] != nil {
				all = append(all, known.route.status())
			}
		}
	}
	slices.SortFunc(all, func(a, b FunctionStatus) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// statusText is the function StatusFunction.
func (g *Gateway) statusText() (string, error) {
	text, err := json.Marshal(g.Status())
	return string(text), err
}
