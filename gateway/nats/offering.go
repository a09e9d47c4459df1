package gateway

import (
	"context"
	"errors"
	"net"
)

var (
	errDraining  = errors.New("the server is stopping")
	errEnded     = errors.New("the server has ended")
	errWithdrawn = errors.New("the gateway does not export it any more")
)

// An offering is what others can use of a server that is there: connections through the engine, and
// endpoints for programs without Nearcall.
type offering struct {
	// schema and instance are announced.
	schema   string
	instance instanceNumber
	listener net.Listener
	stop     []func()
}

// offer begins to offer the server as it is at present. If all of its functions may be called,
// connections of others are relayed to it. Otherwise the gateway serves those that may, and passes
// their calls on: what others send never reaches the server then.
func (e *exported) offer(ctx context.Context) (o *offering, err error) {
	o = &offering{schema: e.document.Hash, instance: instanceNumber(e.welcome.Instance)}
	if o.listener, err = e.gateway.hub.Listen(e.config.Name); err != nil {
		return nil, err
	}
	if len(e.config.Functions) == 0 {
		go e.relay(o.listener)
	} else if err := e.serveSome(ctx, o); err != nil {
		o.withdraw()
		return nil, err
	}
	stop, err := e.gateway.serveEndpoints(ctx, e)
	if err != nil {
		o.withdraw()
		return nil, err
	}
	o.stop = append(o.stop, stop)
	return o, nil
}

// withdraw ends what was begun. Calls that are under way go on.
func (o *offering) withdraw() {
	_ = o.listener.Close()
	for _, stop := range o.stop {
		stop()
	}
}
