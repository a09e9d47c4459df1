package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/gateway/nats/internal/services"
	"github.com/nearcall/nearcall/internal/wire"
)

const (
	// Pauses before a server that is not there is looked for again.
	watchPauseMin = 20 * time.Millisecond
	watchPauseMax = time.Second
	// watchLimit bounds how long a server may take to say what it serves.
	watchLimit = 10 * time.Second
)

// An exported server is one of this machine whose functions others may call.
type exported struct {
	gateway *Gateway
	config  Export
	log     *slog.Logger
	// client calls the server. Its calls have the time that their contexts have.
	client *client.Client
	// workers bounds the calls of programs without Nearcall.
	workers *services.Workers

	stop    context.CancelFunc // ends watching, and what is offered to others
	stopped chan struct{}

	// calls are those of this gateway's callers that the server has.
	calls                 atomic.Int64
	streams, streamsTotal atomic.Int64

	mu sync.Mutex
	// state is up while the server takes calls, and why says why it does not.
	state serverState
	why   error
	// welcome is what the server has said last, and document its schema.
	welcome  wire.Welcome
	document *client.Document
	// offered is what others are offered while the server is up.
	offered *offering
}

// newExported returns a server that was not looked for yet.
func (g *Gateway) newExported(config Export) (*exported, error) {
	log := g.log.With("server", config.Name)
	c, err := client.New(config.Address, client.WithName("nearcall gateway"), client.WithLogger(log), client.WithTimeout(client.NoTimeout), client.WithDirect(client.DirectOff))
	if err != nil {
		return nil, fmt.Errorf("gateway: export %s: %w", config.Name, err)
	}
	return &exported{gateway: g, config: config, log: log, client: c, workers: services.NewWorkers(g.config.Workers), state: serverDown, stop: func() {}, stopped: make(chan struct{})}, nil
}

// start begins to watch the server.
func (e *exported) start(ctx context.Context) {
	ctx, e.stop = context.WithCancel(ctx)
	go e.run(ctx)
}

// withdraw ends what others are offered. Connections of others to the server go on.
func (e *exported) withdraw() {
	e.stop()
	<-e.stopped
}

// run looks for the server whenever it is not there, and offers it to others while it is.
func (e *exported) run(ctx context.Context) {
	defer close(e.stopped)
	for pause := watchPauseMin; ctx.Err() == nil; {
		w, document, err := e.look(ctx)
		if err == nil {
			err = e.up(ctx, w, document)
		}
		if err != nil {
			e.down(serverDown, err)
			sleep(ctx, pause)
			pause = min(2*pause, watchPauseMax)
			continue
		}
		pause = watchPauseMin
		switch draining := w.wait(ctx); {
		case ctx.Err() != nil:
			e.down(serverDown, errWithdrawn)
		case draining:
			e.down(serverDraining, errDraining)
		default:
			e.down(serverDown, errEnded)
		}
	}
}

// look connects to the server and asks what it serves.
func (e *exported) look(ctx context.Context) (*watcher, *client.Document, error) {
	ctx, cancel := context.WithTimeout(ctx, watchLimit)
	defer cancel()
	w, err := watch(ctx, e.config.Address)
	if err != nil {
		return nil, nil, err
	}
	document, err := e.client.Schema(ctx)
	if err != nil {
		w.conn.Close()
		return nil, nil, err
	}
	return w, document, nil
}

// up offers the server to others.
func (e *exported) up(ctx context.Context, w *watcher, document *client.Document) error {
	e.mu.Lock()
	e.state, e.why, e.welcome, e.document = serverUp, nil, w.welcome, document
	e.mu.Unlock()
	offered, err := e.offer(ctx)
	if err != nil {
		w.conn.Close()
		return err
	}
	e.mu.Lock()
	e.offered = offered
	e.mu.Unlock()
	e.log.Info("a server is exported", "address", e.config.Address, "functions", len(e.functions()))
	e.gateway.changed()
	return nil
}

// down withdraws the server.
func (e *exported) down(state serverState, why error) {
	e.mu.Lock()
	changed := e.state != state
	repeated := e.why != nil && e.why.Error() == why.Error()
	e.state, e.why = state, why
	offered := e.offered
	e.offered = nil
	e.mu.Unlock()
	if offered != nil {
		offered.withdraw()
	}
	if !repeated && !errors.Is(why, errWithdrawn) {
		e.log.Warn("a server is not there", "address", e.config.Address, "reason", why)
	}
	if changed {
		e.gateway.changed()
	}
}

// functions returns the functions that others may call, as they are at present, or nil if the
// server is not there.
func (e *exported) functions() []*client.Function {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != serverUp {
		return nil
	}
	var admitted []*client.Function
	for _, f := range e.document.Functions {
		if e.config.admits(f.Name) {
			admitted = append(admitted, f)
		}
	}
	return admitted
}

// schemaHash returns the hash of the server's schema, or "" if it is not there.
func (e *exported) schemaHash() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != serverUp {
		return ""
	}
	return e.document.Hash
}

// announcement returns what other gateways are told.
func (e *exported) announcement() serverDocument {
	e.mu.Lock()
	defer e.mu.Unlock()
	d := serverDocument{Name: e.config.Name, State: e.state, Direct: e.config.Direct}
	if e.state == serverUp && e.offered == nil {
		d.State = serverDown // it is about to be offered, or withdrawn
	}
	if d.State == serverUp {
		d.Schema, d.Instance = e.offered.schema, e.offered.instance
	}
	return d
}

// isFull reports whether the server would let one more call wait.
func (e *exported) isFull() bool {
	e.mu.Lock()
	most := int64(e.welcome.CallsInFlightMax)
	e.mu.Unlock()
	return most > 0 && e.calls.Load() >= most
}
