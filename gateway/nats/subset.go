package gateway

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/gateway/nats/internal/bus"
	"github.com/nearcall/nearcall/server"
)

// serveSome offers some functions of the server: those that the patterns admit and whose calls can be
// passed on.
func (e *exported) serveSome(ctx context.Context, o *offering) error {
	s, err := server.New(server.WithLogger(e.log), server.WithName("nearcall gateway"), server.WithDrainTimeout(replacedDrain))
	if err != nil {
		return err
	}
	for _, f := range e.functions() {
		if why := canForward(f); why != nil {
			e.log.Info("a function is not exported", "function", f.Name, "reason", why)
			continue
		}
		if err := s.RegisterForwarded(f.JSON(), e.client.Forward); err != nil {
			return err
		}
	}
	conns := make(chan net.Conn)
	inlet := newInlet(conns, o.listener.Addr())
	go func() { _ = s.Serve(context.Background(), inlet) }()
	o.stop = append(o.stop, func() {
		// Calls that are under way are answered, while others go elsewhere already.
		go func() { _ = s.Shutdown(context.Background()) }()
	})
	if err := o.describe(ctx, conns); err != nil {
		return err
	}
	go e.lead(o.listener, conns, inlet)
	return nil
}

// lead gives connections of other gateways to the server that serves some functions.
func (e *exported) lead(from net.Listener, to chan<- net.Conn, until *inlet) {
	for {
		conn, err := from.Accept()
		if err != nil {
			return
		}
		e.streams.Add(1)
		e.streamsTotal.Add(1)
		forget := e.gateway.peers.enter(conn)
		counted := &countedConn{Conn: conn.(*bus.Conn), leave: func() {
			e.streams.Add(-1)
			forget()
		}}
		select {
		case to <- counted:
		case <-until.closed:
			counted.Close()
		}
	}
}

// A countedConn is a connection of another gateway that is noted until it is closed.
type countedConn struct {
	*bus.Conn
	once  sync.Once
	leave func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.once.Do(c.leave)
	return c.Conn.Close()
}

// describe asks the server at the other end of conns for what is announced of it.
func (o *offering) describe(ctx context.Context, conns chan<- net.Conn) error {
	connect := func() (net.Conn, error) {
		near, far, err := socketPair()
		if err != nil {
			return nil, err
		}
		select {
		case conns <- far:
			return near, nil
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), near.Close(), far.Close())
		}
	}
	conn, err := connect()
	if err != nil {
		return err
	}
	w := &watcher{conn: conn}
	err = w.greet(ctx)
	conn.Close()
	if err != nil {
		return err
	}
	c, err := client.New("unix:/", client.WithDialer(func(context.Context, string) (net.Conn, error) { return connect() }), client.WithoutSharedMemory())
	if err != nil {
		return err
	}
	defer c.Close()
	document, err := c.Schema(ctx)
	if err != nil {
		return err
	}
	o.schema, o.instance = document.Hash, instanceNumber(w.welcome.Instance)
	return nil
}
