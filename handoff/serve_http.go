package handoff

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
)

// Serve serves HTTP as server.Serve does, with a server that Shutdown can stop without
// losing a request. The listener may be of any kind, and a server may have several.
// Connections that were handed over go back to where they came from when the server
// stops. Serve wraps server.Handler, server.ConnState and server.ConnContext: set those
// before. After Shutdown it returns http.ErrServerClosed.
func Serve(server *http.Server, l net.Listener) error {
	return servingOf(server).serve(l, server.Serve)
}

// ServeTLS is Serve for connections that begin with TLS, as server.ServeTLS is.
func ServeTLS(server *http.Server, l net.Listener, certificateFile, keyFile string) error {
	return servingOf(server).serve(l, func(l net.Listener) error {
		return server.ServeTLS(l, certificateFile, keyFile)
	})
}

// Shutdown stops a server of Serve or ServeTLS without losing a request. It does so in
// this order:
//
//   - The listeners are closed. What a Listener was offered and has not taken goes back to its givers, who are
//     told that it takes no more.
//   - Every answer that begins after that says that it is the last one on its connection, by Connection: close or,
//     in HTTP/2, by GOAWAY. That applies to requests that arrived earlier, too.
//   - Connections that were handed over and are between two requests go back to their giver, which waits for the
//     next request and gives it to another process. Other connections stay until their next request is answered,
//     but for a second at most, which begins now or when an answer that had begun is complete. So do connections
//     that cannot go back, because they use TLS or because their giver does not take them.
//   - Then the server's own Shutdown is called.
//
// On its own, the server's Shutdown closes connections on which a request may be on its
// way.
func Shutdown(ctx context.Context, server *http.Server) error {
	s, found := knownServing(server)
	if !found {
		return server.Shutdown(ctx)
	}
	listeners := s.leave()
	var closing []error
	for _, l := range listeners {
		closing = append(closing, unlessClosed(l.Close()))
	}
	s.wakeResting()
	s.wait(ctx)
	closing = append(closing, unlessClosed(server.Shutdown(ctx)))
	for _, l := range listeners {
		if own, ok := l.Listener.(*Listener); ok {
			closing = append(closing, own.Shutdown(ctx))
		}
	}
	return errors.Join(closing...)
}

// unlessClosed drops the error of closing a listener again: the server closes those
// that were closed before once more.
func unlessClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// An httpServing holds what is known about the connections that an http.Server serves.
// It is the server's handler too, so that it lives as long as the server.
type httpServing struct {
	handler http.Handler
	leaving atomic.Bool

	mu        sync.Mutex
	listeners []*servedListener      // one for each call of Serve and ServeTLS that accepts, or did when the server began to stop
	accepting int                    // how many calls of Serve and ServeTLS accept
	left      time.Time              // when the server began to stop
	resting   map[net.Conn]time.Time // since when each is between requests; zero if it is not
	changed   chan struct{}          // closed and replaced when accepting or resting changes while the server stops
}

// A servedListener has an address to tell it from others by, because a net.Listener need
// not be comparable.
type servedListener struct{ net.Listener }

// wrapping is held while a server is wrapped, because two calls of Serve may begin at
// the same time.
var wrapping sync.Mutex

func knownServing(server *http.Server) (s *httpServing, found bool) {
	wrapping.Lock()
	defer wrapping.Unlock()
	s, found = server.Handler.(*httpServing)
	return s, found
}

func servingOf(server *http.Server) *httpServing {
	wrapping.Lock()
	defer wrapping.Unlock()
	if s, found := server.Handler.(*httpServing); found {
		return s
	}
	s := &httpServing{handler: server.Handler, resting: make(map[net.Conn]time.Time), changed: make(chan struct{})}
	if s.handler == nil {
		s.handler = http.DefaultServeMux
	}
	s.wrap(server)
	return s
}

func (s *httpServing) wrap(server *http.Server) {
	connContext, connState := server.ConnContext, server.ConnState
	server.Handler = s
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if connContext != nil {
			ctx = connContext(ctx, c)
		}
		return s.meet(ctx, c)
	}
	server.ConnState = func(c net.Conn, state http.ConnState) {
		s.turned(c, state)
		if connState != nil {
			connState(c, state)
		}
	}
}

// serve runs one call of Serve or ServeTLS.
func (s *httpServing) serve(l net.Listener, serve func(net.Listener) error) error {
	served := s.enter(l)
	if served == nil {
		_ = l.Close()
		return http.ErrServerClosed
	}
	err := serve(l)
	s.exit(served)
	if s.leaving.Load() && errors.Is(err, net.ErrClosed) {
		return http.ErrServerClosed // the listener was closed before the server
	}
	return err
}

// enter returns nil when the server is stopping.
func (s *httpServing) enter(l net.Listener) *servedListener {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving.Load() {
		return nil
	}
	served := &servedListener{l}
	s.listeners = append(s.listeners, served)
	s.accepting++
	return served
}

func (s *httpServing) exit(served *servedListener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepting--
	if !s.leaving.Load() {
		s.listeners = slices.DeleteFunc(s.listeners, func(other *servedListener) bool { return other == served })
	}
	s.tellLeaving()
}

// tellLeaving makes all who wait for the connections look at them again: several calls of
// Shutdown may wait at the same time. Preconditions: mu is held.
func (s *httpServing) tellLeaving() {
	if s.leaving.Load() {
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

type exchangeKey struct{}

// handed returns the connection that was handed over. secure means that it lies below
// TLS.
func handed(c net.Conn) (conn *Conn, secure bool) {
	if over, ok := c.(*tls.Conn); ok {
		c, secure = over.NetConn(), true
	}
	conn, _ = c.(*Conn)
	return conn, secure
}

// meet begins to follow a connection.
func (s *httpServing) meet(ctx context.Context, c net.Conn) context.Context {
	conn, secure := handed(c)
	if conn == nil {
		return ctx
	}
	x := &exchange{serving: s, secure: secure, resting: true}
	conn.exchange.Store(x)
	return context.WithValue(ctx, exchangeKey{}, x)
}

// ServeHTTP is the server's handler.
func (s *httpServing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if x, ok := r.Context().Value(exchangeKey{}).(*exchange); ok {
		x.expect(r.ContentLength)
	}
	answer, end := s.answerOver(w, r)
	s.handler.ServeHTTP(answer, r)
	end()
}

// turned is told each state that the server reports for a connection.
func (s *httpServing) turned(c net.Conn, state http.ConnState) {
	if conn, _ := handed(c); conn != nil {
		conn.turned(state)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateClosed, http.StateHijacked:
		delete(s.resting, c)
	case http.StateActive:
		s.resting[c] = time.Time{}
	default:
		s.resting[c] = time.Now()
	}
	s.tellLeaving()
}

// leave notes that the server is stopping, and returns the listeners that are to be
// closed.
func (s *httpServing) leave() []*servedListener {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leaving.Swap(true) {
		s.left = time.Now()
	}
	return s.listeners
}

// wakeResting wakes the connections that are between two requests, so that they go
// back.
func (s *httpServing) wakeResting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.resting {
		if conn, _ := handed(c); conn != nil {
			if x := conn.exchange.Load(); x != nil {
				x.wake(conn)
			}
		}
	}
}

// wait returns when no connections are left except those that have rested long enough.
func (s *httpServing) wait(ctx context.Context) {
	for {
		var rested <-chan time.Time
		busy, end, changed := s.restEnd()
		if !busy {
			pause := time.Until(end)
			if pause <= 0 {
				return
			}
			rested = time.After(pause)
		}
		select {
		case <-ctx.Done():
			return
		case <-rested:
		case <-changed:
		}
	}
}

// restMax is how long a connection that cannot go back is left open for its next
// request.
const restMax = wire.HandoffRestMs * time.Millisecond

// restEnd returns when all connections will have rested long enough, and a channel that is
// closed when that changes; busy means that some are not resting. A server that still
// accepts counts as busy: the connection that it has accepted last may not be among those
// known here yet, and a server does not answer the first request of a connection that it
// first meets while it shuts itself down.
func (s *httpServing) restEnd() (busy bool, end time.Time, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.accepting > 0 {
		return true, end, s.changed
	}
	for _, since := range s.resting {
		switch {
		case since.IsZero():
			return true, end, s.changed
		case since.Before(s.left):
			since = s.left
		}
		if own := since.Add(restMax); own.After(end) {
			end = own
		}
	}
	return false, end, s.changed
}
