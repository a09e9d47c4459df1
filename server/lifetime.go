package server

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
)

// ErrServerClosed is returned by Serve, ListenAndServe and Listen after Shutdown or Close, and
// is the cause of the contexts that Close ends (context.Cause).
var ErrServerClosed = errors.New("nearcall: the server was shut down or closed")

// lifetime is what of a server's life its listeners share.
type lifetime struct {
	// mu protects what follows.
	mu       sync.Mutex
	over     bool
	services map[*service]struct{}
}

// begin adds a service; it reports false once the server's life is over.
func (l *lifetime) begin(v *service) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	if l.services == nil {
		l.services = make(map[*service]struct{})
	}
	l.services[v] = struct{}{}
	return true
}

func (l *lifetime) end(v *service) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.services, v)
	close(v.ended)
}

// finish ends the server's life and returns the services that are left.
func (l *lifetime) finish() []*service {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	return slices.Collect(maps.Keys(l.services))
}

func (l *lifetime) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// Shutdown stops serving on all listeners, in the way in which the end of Serve's context
// does: the server accepts no more, tells callers which calls it will still answer, and
// answers these. Shutdown waits until that is done. If its context ends first it returns
// the context's error, and what runs goes on until WithDrainTimeout or Close. It returns
// ErrDrainTimeout if functions were still running at the end of the drain timeout.
//
// Unlike that of net/http, Serve returns ErrServerClosed only when it has drained, so a
// program whose function main returns with Serve loses nothing. A server that was shut down
// serves no more. Shutdown may be called by any number of goroutines, repeatedly, and after
// Close.
func (s *Server) Shutdown(ctx context.Context) error {
	var failures []error
	left := s.lifetime.finish()
	for _, v := range left {
		v.stop(ErrServerClosed)
	}
	for _, v := range left {
		select {
		case <-v.ended:
			failures = append(failures, v.drained)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.Join(failures...)
}

// Close closes all listeners and connections at once, and Serve returns ErrServerClosed. The
// contexts of functions end with the cause ErrServerClosed. Close does not wait for functions
// that do not heed that; their results are dropped. It may be called by any number of
// goroutines, repeatedly, and during Shutdown. The error is always nil; it makes a Server an
// io.Closer.
func (s *Server) Close() error {
	for _, v := range s.lifetime.finish() {
		v.abandon()
		v.stop(ErrServerClosed)
		<-v.ended
	}
	return nil
}

// A closingOnce is a listener that several may close.
type closingOnce struct {
	net.Listener
	close func() error
}

func closedOnce(listener net.Listener) net.Listener {
	return closingOnce{listener, sync.OnceValue(listener.Close)}
}

// Close closes the listener, and returns what that returned the first time.
func (l closingOnce) Close() error { return l.close() }
