package client

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/observe"
	"github.com/nearcall/nearcall/status"
)

// A Client calls the functions of one server, or of several that serve the same address. It
// may be used by any number of goroutines, which share one connection to each of them.
type Client struct {
	core *core
	// options are those of every call that is made through this view; see With.
	options *callOptions
}

// A core is what all views of a client have in common.
type core struct {
	config config
	// options are those of calls for which With said nothing.
	options callOptions
	text    string // the address as it was written
	clock   monotonic.Clock
	log     *slog.Logger

	// only is the endpoint of an address that has one. Otherwise route is set, and chooses an
	// endpoint for each call.
	only  endpoint
	route *route
	// directions say where calls go instead; nil if they are not followed.
	directions *directions

	// life is a context that ends with Close. Attempts to connect end with it.
	life context.Context
	stop context.CancelFunc

	mu     sync.Mutex
	closed bool
	// living holds every connection whose reader has not ended: those that new calls use, and
	// those that they no longer use.
	living map[*connection]struct{}
	// functions are those of the schemas that were seen last, the latest first.
	functions []*functionTable

	sleeps sharedmemory.Sleeps
	counts counts
	// plainWarned makes sure that there is one warning.
	plainWarned sync.Once
	// connectionIDs numbers connections for the observer.
	connectionIDs atomic.Uint64

	calls sync.Pool // *call
	plans sync.Map  // reflect.Type to *codec.Plan, of results
}

// New returns a client for an address: "unix:/path", "unix:@name" (see
// WithAbstractAddresses), "tcp:host:port" or, with package clienttls, "tls:host:port". An address
// may have several endpoints, such as "unix:/run/a.sock | tcp:b:7000,c:7000", the nearest first:
// see the package's documentation. New does not connect; the first call does.
// An address or an option that is not valid is an error, which is a *status.Error with
// code INVALID_ARGUMENT.
func New(text string, options ...Option) (*Client, error) {
	config := defaultConfig()
	for _, option := range options {
		option(&config)
	}
	parsed, err := parseAddress(text, config.allowAbstract)
	if err == nil {
		err = config.check()
	}
	if err == nil && config.secure == nil && parsed.Has("tls") {
		err = fmt.Errorf("address %q needs an option: clienttls.With(...) of package client/clienttls", text)
	}
	if err != nil {
		return nil, notExecuted(status.InvalidArgument, "%w", err)
	}
	config.setSilence(parsed)
	c := &core{config: config, options: config.callOptions(), text: text, clock: monotonic.New(), log: config.logger,
		living: map[*connection]struct{}{}}
	if first := parsed.Groups[0][0]; parsed.Count() == 1 && !c.resolves(first) {
		c.only.init(c, first)
	} else {
		c.route = newRoute(c, parsed)
	}
	if config.direct != DirectOff && config.dial == nil {
		c.directions = newDirections(c)
	}
	c.life, c.stop = context.WithCancel(context.Background())
	c.calls.New = func() any { return newCall(c) }
	return &Client{core: c, options: &c.options}, nil
}

// parseAddress parses an address and holds it to its limit.
func parseAddress(text string, allowAbstract bool) (address.List, error) {
	parsed, err := address.ParseList(text, allowAbstract)
	if err == nil && parsed.Count() > wire.AddressEndpointsMax {
		err = fmt.Errorf("nearcall: address %q: it has %d endpoints (at most %d, limit address_endpoints_max, which is fixed)", text, parsed.Count(), wire.AddressEndpointsMax)
	}
	return parsed, err
}

// Address returns the address that the client was made for.
func (c *Client) Address() string { return c.core.text }

// Transport returns how calls travel on the present connection: observe.SharedMemory,
// observe.UnixSocket, observe.TLS or observe.TCP. It returns "" if there is no connection. If the
// address has several endpoints, it is about the one that was used last. Calls that went where a
// server had directed them do not count.
func (c *Client) Transport() string {
	current := c.core.present()
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
	case c.secure:
		return observe.TLS
	case !c.local:
		return observe.TCP
	case c.output.memory == nil:
		return observe.UnixSocket
	}
	return observe.SharedMemory
}

// present returns the connection that was used last, or nil if that has ended.
func (c *core) present() *connection {
	if c.route != nil {
		return c.route.present()
	}
	return c.only.current.Load()
}

// Close closes all connections and waits until that is done. Calls in flight
// fail with CANCELLED and later ones with FAILED_PRECONDITION; both match
// ErrClosed. All views of a client (see With) are closed with it. Closing twice is
// allowed. The error is always nil; it makes a Client an io.Closer.
func (c *Client) Close() error {
	c.core.stop()
	for _, connection := range c.core.lastConnections() {
		connection.close(&loss{cause: ErrClosed})
		<-connection.ended
	}
	if c.core.route != nil {
		c.core.route.awaitLookups()
	}
	return nil
}

// lastConnections marks the client as closed and returns all its connections, including
// one that was just being opened.
func (c *core) lastConnections() []*connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for opening := c.anyOpening(); opening != nil; opening = c.anyOpening() {
		c.mu.Unlock()
		<-opening.done
		c.mu.Lock()
	}
	return slices.Collect(maps.Keys(c.living))
}

// anyOpening returns an attempt to connect that is under way, or nil. Preconditions: c.mu is
// held.
func (c *core) anyOpening() *opening {
	if c.directions != nil {
		if opening := c.directions.told.anyOpening(); opening != nil {
			return opening
		}
	}
	if c.route != nil {
		return c.route.anyOpening()
	}
	return c.only.opening
}

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
