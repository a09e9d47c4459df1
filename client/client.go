package client

import (
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/transport/tcp"
	"github.com/nearcall/nearcall/internal/transport/unixsocket"
	"github.com/nearcall/nearcall/observe"
	"github.com/nearcall/nearcall/status"
)

// A Client calls the functions of one server. It may be used by any number of
// goroutines, which share one connection.
type Client struct {
	core *core
	// options are those of every call that is made through this view; see With.
	options *callOptions
}

// A core is what all views of a client have in common.
type core struct {
	config config
	// options are those of calls for which With said nothing.
	options   callOptions
	address   address.Address
	transport transport.Transport
	clock     monotonic.Clock
	log       *slog.Logger

	// current is the connection that new calls use, or nil if there is none.
	current atomic.Pointer[connection]

	// life is a context that ends with Close. Attempts to connect end with it.
	life context.Context
	stop context.CancelFunc

	mu      sync.Mutex
	closed  bool
	opening *opening
	// living holds every connection whose reader has not ended: current, and those that
	// new calls no longer use.
	living map[*connection]struct{}
	// functions are those of the schema that was seen last.
	functions *functionTable

	sleeps sharedmemory.Sleeps
	counts counts
	// connectionIDs numbers connections for the observer.
	connectionIDs atomic.Uint64

	calls sync.Pool // *call
	plans sync.Map  // reflect.Type to *codec.Plan, of results
}

// New returns a client for an address: "unix:/path", "unix:@name" (see
// WithAbstractAddresses) or "tcp:host:port". It does not connect; the first call does.
// An address or an option that is not valid is an error, which is a *status.Error with
// code INVALID_ARGUMENT.
func New(text string, options ...Option) (*Client, error) {
	config := defaultConfig()
	for _, option := range options {
		option(&config)
	}
	parsed, err := address.Parse(text, config.allowAbstract)
	if err == nil {
		err = config.check()
	}
	if err != nil {
		return nil, notExecuted(status.InvalidArgument, "%w", err)
	}
	c := &core{config: config, options: config.callOptions(), address: parsed, clock: monotonic.New(), log: config.logger,
		living: map[*connection]struct{}{}}
	c.transport = transportOf(parsed)
	c.life, c.stop = context.WithCancel(context.Background())
	c.calls.New = func() any { return newCall(c) }
	return &Client{core: c, options: &c.options}, nil
}

func transportOf(a address.Address) transport.Transport {
	if a.Network == "tcp" {
		return tcp.Transport{}
	}
	return unixsocket.Transport{}
}

// Address returns the address that the client was made for.
func (c *Client) Address() string { return c.core.address.String() }

// Transport returns how calls travel on the present connection: observe.SharedMemory,
// observe.UnixSocket or observe.TCP. It returns "" if there is no connection.
func (c *Client) Transport() string {
	current := c.core.current.Load()
	if current == nil {
		return ""
	}
	current.mu.Lock()
	defer current.mu.Unlock()
	return current.transportLocked()
}

// transportLocked returns how calls travel. Preconditions: c.mu is held.
func (c *connection) transportLocked() string {
	switch {
	case !c.local:
		return observe.TCP
	case c.output.memory == nil:
		return observe.UnixSocket
	}
	return observe.SharedMemory
}

// Close closes the connection and waits until that is done. Calls in flight
// fail with CANCELLED and later ones with FAILED_PRECONDITION; both match
// ErrClosed. All views of a client (see With) are closed with it. Closing twice is
// allowed. The error is always nil; it makes a Client an io.Closer.
func (c *Client) Close() error {
	c.core.stop()
	for _, connection := range c.core.lastConnections() {
		connection.close(&loss{cause: ErrClosed})
		<-connection.ended
	}
	return nil
}

// lastConnections marks the client as closed and returns all its connections, including
// one that was just being opened.
func (c *core) lastConnections() []*connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if opening := c.opening; opening != nil {
		c.mu.Unlock()
		<-opening.done
		c.mu.Lock()
	}
	return slices.Collect(maps.Keys(c.living))
}

// detach makes the next call open another connection.
func (c *core) detach(gone *connection) { c.current.CompareAndSwap(gone, nil) }

// forget removes a connection whose reader has ended.
func (c *core) forget(gone *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.living, gone)
	c.counts.ended(gone)
}

// planFor returns the plan for decoding results of a type.
func (c *core) planFor(t reflect.Type) (*codec.Plan, error) {
	if known, ok := c.plans.Load(t); ok {
		return known.(*codec.Plan), nil
	}
	plan, err := codec.NewPlan(t, resultOptions)
	if err != nil {
		return nil, err
	}
	c.plans.Store(t, plan)
	return plan, nil
}
