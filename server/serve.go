package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/direct"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/tcp"
	"github.com/nearcall/nearcall/internal/transport/unixsocket"
	"github.com/nearcall/nearcall/spin"
	"github.com/nearcall/nearcall/status"
)

const (
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = time.Second
)

// ErrDrainTimeout is what Serve returns when functions were still running at the end of
// the drain timeout. Their connections have been closed.
var ErrDrainTimeout = errors.New("nearcall: functions were still running when the drain timeout ended")

// ListenAndServe serves an address until ctx ends. The address has the form
// "unix:/path", "unix:@name", "tcp:host:port" or, with package servertls, "tls:host:port".
// It does what Listen and Serve do one after the other.
func (s *Server) ListenAndServe(ctx context.Context, addr string) error {
	listener, err := s.Listen(ctx, addr)
	if err != nil {
		return err
	}
	return s.Serve(ctx, listener)
}

// Listen binds an address without serving it yet. Pass the listener to Serve.
func (s *Server) Listen(ctx context.Context, addr string) (net.Listener, error) {
	if s.lifetime.isOver() {
		return nil, ErrServerClosed
	}
	parsed, err := address.Parse(addr, s.config.allowAbstract)
	if err != nil {
		return nil, err
	}
	under, err := s.transportOf(parsed)
	if err != nil {
		return nil, err
	}
	made, err := under.Listen(ctx, parsed, transport.ListenOptions{
		Mode: s.config.socketMode, GroupID: s.config.socketGroup,
	})
	if err != nil {
		return nil, err
	}
	if err := s.checkPlain(made, parsed.Plain); err != nil {
		return nil, errors.Join(err, made.Close())
	}
	return listener{made, parsed}, nil
}

// A listener is a net.Listener that remembers the parameters of its address.
type listener struct {
	net.Listener
	address address.Address
}

// transportOf returns the transport for listening on an address.
func (s *Server) transportOf(a address.Address) (transport.Transport, error) {
	switch {
	case a.Network == "unix":
		return unixsocket.Transport{}, nil
	case a.Network != "tls":
		return tcp.Transport{Silence: a.Silence}, nil
	case s.config.secure == nil:
		return nil, fmt.Errorf("nearcall: address %q: the server has no certificate: servertls.New of package server/servertls reads one, and its Option goes to server.New", a)
	case a.TLS != address.TLS{}:
		return nil, fmt.Errorf("nearcall: address %q: ca, cert, key and name are for callers; servertls.Files names the files of a server", a)
	}
	return s.config.secure, nil
}

// transportFor returns the transport for connections that come from a listener.
func transportFor(network string, from net.Listener) transport.Transport {
	made, ours := from.(listener)
	switch {
	case network != "unix":
		return tcp.Transport{Silence: made.address.Silence} // connections that have TLS bring it along
	case ours:
		return unixsocket.For(made.Listener)
	}
	return unixsocket.Transport{}
}

// checkLists refuses a listener whose peers cannot be what the lists ask for.
func (s *Server) checkLists(from net.Listener) error {
	network := from.Addr().Network()
	if ours, ok := from.(listener); ok {
		from = ours.Listener
	}
	asking, _ := from.(transport.AskingListener)
	switch {
	case s.hasAllowLists() && network != "unix":
		return fmt.Errorf("nearcall: allowed users and groups cannot be checked on %s: serve a unix: address, or remove the lists", network)
	case s.config.allowedIdentities != nil && network != "unix" && network != "tls":
		return fmt.Errorf("nearcall: allowed identities cannot be checked on %s, because its peers show no certificates: serve a tls: address, or remove the list", network)
	case s.config.allowedIdentities != nil && asking != nil && !asking.AsksForCertificates():
		return errors.New("nearcall: allowed identities cannot be checked, because callers are not asked for certificates, and all of them would be refused: set ClientAuthorities of servertls.Files, or remove the list")
	}
	return nil
}

// Serve serves the connections of a listener until ctx ends. The listener may come from
// Listen, from package net or crypto/tls, from socket activation, or be of any other kind.
// Serve closes it once, at the end. A server may serve several listeners at the same time.
//
// When ctx ends, Serve stops accepting, tells callers which calls will still be answered,
// and lets the functions that run finish. Then it returns nil, or ErrDrainTimeout if that
// took too long. Callers on other machines have up to a second more to close their connections.
// After Shutdown or Close it returns ErrServerClosed.
//
// The contexts of functions have the values of ctx. They do not end with it, because calls
// that were accepted are answered; Call.Draining tells functions that ctx has ended. If the
// drain takes too long they end with the cause ErrDrainTimeout.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	if library, ok := listener.(direct.Listener); ok {
		return s.serveLibrary(ctx, library)
	}
	if err := s.checkPlain(listener, address.PlainUnsaid); err != nil {
		return errors.Join(err, listener.Close())
	}
	s.fitToDescriptors()
	return s.serve(ctx, listener, slog.LevelInfo)
}

// serve is Serve with the level at which its start and its end are logged.
func (s *Server) serve(ctx context.Context, listener net.Listener, level slog.Level) error {
	table, err := s.prepare()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	network := listener.Addr().Network()
	if err := s.checkLists(listener); err != nil {
		return errors.Join(err, listener.Close())
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	service := &service{
		server: s, table: table, transport: transportFor(network, listener),
		values: context.WithValue(context.WithoutCancel(ctx), drainingKey{}, ctx.Done()),
		stop:   stop, ended: make(chan struct{}), abandoned: make(chan struct{}),
		connections: make(map[*connection]struct{}),
	}
	if !s.lifetime.begin(service) {
		return errors.Join(ErrServerClosed, listener.Close())
	}
	defer s.lifetime.end(service)
	closeEngine, err := service.useEngine()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	service.setMemory(listener)
	if network == "unix" {
		unixsocket.PassRights(listener, false)
	}
	listener = closedOnce(listener)
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	s.config.logger.Log(ctx, level, "serving", "address", listener.Addr().String(), "functions", len(table.document.Functions))
	err = service.accept(ctx, listener)
	stop(nil) // the listener may have failed
	service.drained = service.drain()
	err = errors.Join(err, service.drained, closeEngine())
	s.config.logger.Log(ctx, level, "stopped", "address", listener.Addr().String())
	if err == nil && errors.Is(context.Cause(ctx), ErrServerClosed) {
		return ErrServerClosed
	}
	return err
}

// A service holds the connections of one listener.
type service struct {
	server    *Server
	table     *functionTable
	transport transport.Transport

	// engine is the engine of the options, opened on top of transport; nil without one.
	// unparked makes sure that only the first connection that it does not take is
	// logged.
	engine   transport.ParkingTransport
	unparked sync.Once

	// values are those of the contexts of functions, and tell when the service drains; stop
	// ends accepting.
	values context.Context
	stop   context.CancelCauseFunc

	// ended is closed when Serve returns, with what draining returned in drained; abandoned
	// when nothing is waited for any more.
	ended       chan struct{}
	drained     error
	drainedAt   atomic.Pointer[time.Time] // when the drain began, nil before
	abandoned   chan struct{}
	abandonOnce sync.Once

	// Of the address and the options.
	sharedMemory bool
	spin         spin.Mode

	// active counts the connections whose goroutines or functions still run.
	active sync.WaitGroup

	// mu protects connections.
	mu          sync.Mutex
	connections map[*connection]struct{}
}

// useEngine opens the engine that the options name on top of the transport.
func (v *service) useEngine() (closeEngine func() error, err error) {
	if v.server.config.engine == nil {
		return func() error { return nil }, nil
	}
	opened, err := v.server.config.engine.Open(v.transport)
	if err != nil {
		return nil, fmt.Errorf("nearcall: the engine does not start: %w", err)
	}
	v.engine = opened
	return opened.Close, nil
}

// wrap hands an accepted connection to the engine or, without an engine, to the
// transport. A connection that the engine does not take is waited for by a goroutine.
// Only the first such connection is logged, because others are probably of the same
// kind.
func (v *service) wrap(conn net.Conn) net.Conn {
	if v.engine != nil {
		taken, err := v.engine.TakeOver(conn)
		if err == nil {
			return taken
		}
		v.unparked.Do(func() {
			v.server.config.logger.Warn("a connection waits in a goroutine, not with the engine", "type", fmt.Sprintf("%T", conn), "reason", err)
		})
	}
	return v.transport.Wrap(conn)
}

// setMemory decides whether there is shared memory, and how to wait for it, by the
// options and by the address if there is one.
func (v *service) setMemory(from net.Listener) {
	config := &v.server.config
	v.sharedMemory, v.spin = !config.memoryOff, config.spin
	if made, ok := from.(listener); ok {
		v.sharedMemory = v.sharedMemory && !made.address.SharedMemoryOff
		if v.spin == spin.Auto {
			v.spin = made.address.Spin
		}
	}
}

// accept serves connections until ctx ends or the listener fails for good.
func (v *service) accept(ctx context.Context, listener net.Listener) error {
	defer listener.Close()
	pause := acceptPauseMin
	for {
		conn, err := listener.Accept()
		switch {
		case err == nil:
			pause = acceptPauseMin
			v.start(conn)
		case ctx.Err() != nil:
			return nil
		case !passing(err):
			return err
		default:
			v.server.config.logger.Warn("accept failed; trying again", "error", err, "pause", pause)
			if !wait(ctx, pause) {
				return nil
			}
			pause = min(2*pause, acceptPauseMax)
		}
	}
}

// passing reports whether accept may succeed later. It may if the process or the
// machine is short of something, or if only this connection has gone away.
func passing(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

func wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// start serves a connection in a goroutine, or turns it away if its peer may not
// connect.
func (v *service) start(conn net.Conn) {
	s := v.server
	s.counters.connections.Add(1)
	conn = v.wrap(conn)
	peer, err := s.identify(conn)
	var joined *user
	if err == nil {
		joined, err = s.users.join(&peer)
	}
	if err != nil {
		joined = nobody()
	}
	c := newConnection(v, transport.Carry(conn), peer, joined)
	v.active.Add(1)
	if err != nil {
		s.counters.refused.Add(1)
		s.config.logger.Warn("connection refused", "peer", peer.String(), "reason", err)
		if s.config.observer != nil {
			c.observeRefusal(status.FromError(err))
		}
		v.turnAway(c, status.FromError(err))
		return
	}
	v.add(c)
	go c.serve()
}

func (v *service) add(c *connection) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.connections[c] = struct{}{}
}

func (v *service) remove(c *connection) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.connections, c)
}

func (v *service) all() []*connection {
	v.mu.Lock()
	defer v.mu.Unlock()
	list := make([]*connection, 0, len(v.connections))
	for c := range v.connections {
		list = append(list, c)
	}
	return list
}

// drain tells every caller that the server stops, waits for the calls that run, and
// closes the connections that are left when the time is over.
func (v *service) drain() error {
	now := time.Now()
	v.drainedAt.Store(&now)
	for _, c := range v.all() {
		c.drain()
	}
	finished := make(chan struct{})
	go func() {
		v.active.Wait()
		close(finished)
	}()
	timer := time.NewTimer(v.server.config.drainTimeout)
	defer timer.Stop()
	select {
	case <-finished:
		return nil
	case <-v.abandoned:
		v.closeAll(ErrServerClosed)
		return nil
	case <-timer.C:
	}
	v.closeAll(ErrDrainTimeout)
	return ErrDrainTimeout
}

// abandon makes drain close what there is, without waiting.
func (v *service) abandon() { v.abandonOnce.Do(func() { close(v.abandoned) }) }

func (v *service) closeAll(reason error) {
	for _, c := range v.all() {
		c.close(reason)
	}
}
