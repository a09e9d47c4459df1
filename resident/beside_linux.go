package resident

import (
	"context"
	"net"
	"sync"

	"github.com/nearcall/nearcall/resident/internal/channel"
)

// connectionsWaiting is how many connections may wait for Accept.
const connectionsWaiting = 64

// A beside is the listener for the functions that are served beside commands
// (Options.Serve). All methods may be called on nil.
type beside struct {
	address net.Addr
	queue   chan *net.UnixConn
	closed  chan struct{}
	once    sync.Once
	cancel  context.CancelFunc
	ended   chan struct{} // closed when Serve has returned

	mu    sync.Mutex
	taken []*net.UnixConn // some of these are closed by now
}

// serveBeside begins to serve functions if the program has some.
func (r *resident) serveBeside() {
	if r.options.Serve == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.beside = &beside{address: r.listener.Addr(), queue: make(chan *net.UnixConn, connectionsWaiting),
		closed: make(chan struct{}), cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.beside.ended)
		err := r.options.Serve(ctx, r.beside)
		_ = r.beside.Close()
		if err != nil && ctx.Err() == nil {
			r.log.Error("functions are not served any more", "reason", err)
		}
	}()
}

// take queues a connection for Accept, or returns false. If the queue was emptied for
// good in the meantime, the connection is closed at once.
func (b *beside) take(socket *net.UnixConn) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	b.taken = append(opened(b.taken), socket)
	b.mu.Unlock()
	select {
	case b.queue <- socket:
	case <-b.closed:
		return false
	}
	select {
	case <-b.closed:
		b.empty()
	default:
	}
	return true
}

// open reports whether a connection is still open.
func (b *beside) open() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken = opened(b.taken)
	return len(b.taken) > 0
}

// opened returns those of the connections that are still open. A server needs the
// sockets themselves, so nothing tells when it closes one.
func opened(sockets []*net.UnixConn) []*net.UnixConn {
	kept := sockets[:0]
	for _, socket := range sockets {
		raw, err := socket.SyscallConn()
		if err == nil && raw.Control(func(uintptr) {}) == nil {
			kept = append(kept, socket)
		}
	}
	clear(sockets[len(kept):])
	return kept
}

// stop ends serving, and returns when Serve has returned.
func (b *beside) stop() {
	if b != nil {
		b.cancel()
		<-b.ended
	}
}

// Accept returns the next connection that is not from a launcher.
func (b *beside) Accept() (net.Conn, error) {
	select {
	case socket := <-b.queue:
		return socket, nil
	case <-b.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (b *beside) Close() error {
	b.once.Do(func() {
		close(b.closed)
		b.empty()
	})
	return nil
}

// empty closes the connections that nobody will accept.
func (b *beside) empty() {
	for {
		select {
		case socket := <-b.queue:
			// If Open fails, it has closed the socket.
			if conn, err := channel.Open(socket); err == nil {
				_ = conn.Close()
			}
		default:
			return
		}
	}
}

// Addr returns the address of the resident's socket.
func (b *beside) Addr() net.Addr { return b.address }
