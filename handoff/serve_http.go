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
)

// Serve is server.Serve for a server that Shutdown can stop without losing a request. Its
// listener may be any, and a server may have several; connections that were handed over go
// back where they came from. It wraps server.Handler, server.ConnState and
// server.ConnContext: set those before. After Shutdown it returns http.ErrServerClosed.
func Serve(server *http.Server, l net.Listener) error {
	s := servingOf(server, l)
	return s.ended(server.Serve(l))
}

// ServeTLS is Serve for connections that begin with TLS, as server.ServeTLS is.
func ServeTLS(server *http.Server, l net.Listener, certificateFile, keyFile string) error {
	s := servingOf(server, l)
	return s.ended(server.ServeTLS(l, certificateFile, keyFile))
}

// Shutdown stops a server of Serve or ServeTLS in the order that loses no request:
//
//   - The listeners are closed. What a Listener was offered and did not take goes back to
//     its givers, who are told that it takes no more.
//   - Every answer says that it is the connection's last one: by Connection: close, or in
//     HTTP/2 by GOAWAY.
//   - Connections that were handed over and are between two requests go back to their
//     giver, which waits for the next request and gives it to another process. Others, and
//     those that cannot go back, for they speak TLS or their giver takes none, stay until
//     their next request is answered, for a second at most.
//   - Then the server's own Shutdown follows.
//
// The server's own Shutdown alone closes connections on which a request may be on its way.
func Shutdown(ctx context.Context, server *http.Server) error {
	known, found := servings.LoadAndDelete(server)
	if !found {
		return server.Shutdown(ctx)
	}
	s := known.(*httpServing)
	closing := s.leave()
	s.wait(ctx)
	closing = append(closing, server.Shutdown(ctx))
	for _, l := range s.listeners {
		if own, ok := l.(*Listener); ok {
			closing = append(closing, own.Shutdown(ctx))
		}
	}
	return errors.Join(closing...)
}

// servings has the *httpServing of each *http.Server, from its first Serve to Shutdown.
var servings sync.Map

func servingOf(server *http.Server, l net.Listener) *httpServing {
	fresh := &httpServing{resting: make(map[net.Conn]bool), changed: make(chan struct{}, 1)}
	known, found := servings.LoadOrStore(server, fresh)
	s := known.(*httpServing)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, l)
	if !found {
		s.wrap(server)
	}
	return s
}

// restMax is how long a connection that cannot go back is left open for its next request.
const restMax = time.Second

// An httpServing is what is known of the connections that an http.Server serves.
type httpServing struct {
	leaving atomic.Bool
	changed chan struct{} // holds one

	mu        sync.Mutex
	listeners []net.Listener
	resting   map[net.Conn]bool // whether it is between requests
}

type exchangeKey struct{}

func (s *httpServing) wrap(server *http.Server) {
	handler, connContext, connState := server.Handler, server.ConnContext, server.ConnState
	if handler == nil {
		handler = http.DefaultServeMux
	}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.began(w, r)
		handler.ServeHTTP(w, r)
	})
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

// began is told of each request before its handler.
func (s *httpServing) began(w http.ResponseWriter, r *http.Request) {
	if s.leaving.Load() {
		w.Header().Set("Connection", "close")
	}
	if x, ok := r.Context().Value(exchangeKey{}).(*exchange); ok {
		x.expect(r.ContentLength)
	}
}

// turned is told what the server thinks of a connection.
func (s *httpServing) turned(c net.Conn, state http.ConnState) {
	if conn, _ := handed(c); conn != nil {
		conn.turned(state)
	}
	s.mu.Lock()
	if state == http.StateClosed || state == http.StateHijacked {
		delete(s.resting, c)
	} else {
		s.resting[c] = state != http.StateActive
	}
	s.mu.Unlock()
	if s.leaving.Load() {
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
}

// leave closes the listeners, and wakes the connections between two requests, which go
// back then.
func (s *httpServing) leave() (closing []error) {
	s.leaving.Store(true)
	s.mu.Lock()
	listeners := s.listeners
	s.mu.Unlock()
	for _, l := range listeners {
		closing = append(closing, l.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.resting {
		if conn, _ := handed(c); conn != nil {
			if x := conn.exchange.Load(); x != nil {
				x.wake(conn)
			}
		}
	}
	return closing
}

// wait returns when no connection is left, or none but such as rest and cannot go back.
func (s *httpServing) wait(ctx context.Context) {
	timer := time.NewTimer(restMax)
	defer timer.Stop()
	for over := false; !s.left(over); {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			over = true
		case <-s.changed:
		}
	}
}

// left tells whether all have left; over: those that rest are not waited for.
func (s *httpServing) left(over bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resting := range s.resting {
		if !resting || !over {
			return false
		}
	}
	return true
}

// ended is what Serve returns: the listener was closed before the server was.
func (s *httpServing) ended(err error) error {
	if s.leaving.Load() && errors.Is(err, net.ErrClosed) {
		return http.ErrServerClosed
	}
	return err
}
