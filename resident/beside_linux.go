package resident

import (
	"context"
	"net"
	"sync"

	"github.com/nearcall/nearcall/resident/internal/channel"
)

// connectionsWaiting are those that wait for Accept.
const connectionsWaiting = 64

// A beside is the listener of the functions that are served beside commands. All
// methods allow nil.
type beside struct {
	address net.Addr
	queue   chan *net.UnixConn
	closed  chan struct{}
	once    sync.Once
	cancel  context.CancelFunc
	ended   chan struct{} // Serve has returned

	mu    sync.Mutex
	taken []*net.UnixConn // some are closed
}

// serveBeside begins to serve functions where the program has some.
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

// take gives a connection to Accept, or returns false. What comes into the queue when it
// has been emptied for good is closed at once.
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

// open tells whether a connection is still open.
func (b *beside) open() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken = opened(b.taken)
	return len(b.taken) > 0
}

// opened keeps the connections that are open. A server wants the sockets themselves,
// so nobody tells when it closes one.
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

// stop returns when functions are not served any more.
func (b *beside) stop() {
	if b != nil {
		b.cancel()
		<-b.ended
	}
}

// Accept returns the next connection that is not a launcher's.
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

// empty closes what nobody will accept.
func (b *beside) empty() {
	for {
		select {
		case socket := <-b.queue:
			// It has closed the socket where it fails.
			if conn, err := channel.Open(socket); err == nil {
				_ = conn.Close()
			}
		default:
			return
		}
	}
}

// Addr is the address of the resident's socket.
func (b *beside) Addr() net.Addr { return b.address }
