package handoff

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
)

// Serve is server.Serve for a server that Shutdown can stop without losing a request. Its
// listener may be any, and a server may have several; connections that were handed over go
// back where they came from. It wraps server.Handler, server.ConnState and
// server.ConnContext: set those before. After Shutdown it returns http.ErrServerClosed.
func Serve(server *http.Server, l net.Listener) error {
	return servingOf(server).serve(l, server.Serve)
}

// ServeTLS is Serve for connections that begin with TLS, as server.ServeTLS is.
func ServeTLS(server *http.Server, l net.Listener, certificateFile, keyFile string) error {
	return servingOf(server).serve(l, func(l net.Listener) error {
		return server.ServeTLS(l, certificateFile, keyFile)
	})
}

// Shutdown stops a server of Serve or ServeTLS in the order that loses no request:
//
//   - The listeners are closed. What a Listener was offered and did not take goes back to
//     its givers, who are told that it takes no more.
//   - Every answer that begins since, however long its request is there, says that it is the
//     connection's last one: by Connection: close, or in HTTP/2 by GOAWAY.
//   - Connections that were handed over and are between two requests go back to their
//     giver, which waits for the next request and gives it to another process. Others, and
//     those that cannot go back, for they speak TLS or their giver takes none, stay until
//     their next request is answered: for a second at most, from now on or from the end of
//     an answer that had begun before.
//   - Then the server's own Shutdown follows.
//
// The server's own Shutdown alone closes connections on which a request may be on its way.
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
		if own, ok := l.(*Listener); ok {
			closing = append(closing, own.Shutdown(ctx))
		}
	}
	return errors.Join(closing...)
}

// unlessClosed is for listeners: the server closes once more what was closed before.
func unlessClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// An httpServing is what is known of the connections that an http.Server serves. It is the
// server's handler as well: so it lives as long as the server.
type httpServing struct {
	handler http.Handler
	leaving atomic.Bool
	changed chan struct{} // holds one

	mu        sync.Mutex
	listeners []net.Listener
	accepting int                    // how many Serve and ServeTLS there are
	left      time.Time              // when the server began to leave
	resting   map[net.Conn]time.Time // since when it is between requests; zero: it is not
}

// wrapping is held by who wraps a server, for two Serve may begin at the same time.
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
	s := &httpServing{handler: server.Handler, resting: make(map[net.Conn]time.Time), changed: make(chan struct{}, 1)}
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

// serve runs a Serve of the server.
func (s *httpServing) serve(l net.Listener, serve func(net.Listener) error) error {
	if !s.enter(l) {
		_ = l.Close()
		return http.ErrServerClosed
	}
	err := serve(l)
	s.exit()
	if s.leaving.Load() && errors.Is(err, net.ErrClosed) {
		return http.ErrServerClosed // the listener was closed before the server
	}
	return err
}

func (s *httpServing) enter(l net.Listener) (entered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving.Load() {
		return false
	}
	s.listeners = append(s.listeners, l)
	s.accepting++
	return true
}

func (s *httpServing) exit() {
	s.mu.Lock()
	s.accepting--
	s.mu.Unlock()
	s.tellLeaving()
}

// tellLeaving lets who waits for the connections look again.
func (s *httpServing) tellLeaving() {
	if !s.leaving.Load() {
		return
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

type exchangeKey struct{}

// handed is the connection that was handed over; secure: it lies below TLS.
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

// turned is told what the server thinks of a connection.
func (s *httpServing) turned(c net.Conn, state http.ConnState) {
	if conn, _ := handed(c); conn != nil {
		conn.turned(state)
	}
	s.mu.Lock()
	switch state {
	case http.StateClosed, http.StateHijacked:
		delete(s.resting, c)
	case http.StateActive:
		s.resting[c] = time.Time{}
	default:
		s.resting[c] = time.Now()
	}
	s.mu.Unlock()
	s.tellLeaving()
}

// leave returns the listeners that are to be closed.
func (s *httpServing) leave() []net.Listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leaving.Swap(true) {
		s.left = time.Now()
	}
	return s.listeners
}

// wakeResting wakes the connections between two requests: they go back then.
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

// wait returns when no connection is left, or none but such as have rested long enough.
func (s *httpServing) wait(ctx context.Context) {
	for {
		var rested <-chan time.Time
		if busy, end := s.restEnd(); !busy {
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
		case <-s.changed:
		}
	}
}

// restMax is how long a connection that cannot go back is left open for its next request.
const restMax = wire.HandoffRestMs * time.Millisecond

// restEnd is when all connections have rested long enough, where none is busy. Who accepts is:
// what it has accepted last may not be among the connections yet, and the server does not
// answer the first request of one that it meets when it is shutting down itself.
func (s *httpServing) restEnd() (busy bool, end time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.accepting > 0 {
		return true, end
	}
	for _, since := range s.resting {
		switch {
		case since.IsZero():
			return true, end
		case since.Before(s.left):
			since = s.left
		}
		if own := since.Add(restMax); own.After(end) {
			end = own
		}
	}
	return false, end
}
