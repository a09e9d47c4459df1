package handoff

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nearcall/nearcall/handoff/internal/channel"
	"github.com/nearcall/nearcall/handoff/internal/frame"
	"github.com/nearcall/nearcall/internal/wire"
)

// A Listener takes what other processes give. It is a net.Listener whose
// connections are *Conn: http.Server.Serve, tls.NewListener and others use it as
// they would one of TCP. Its methods may be called by any number of goroutines.
type Listener struct {
	config *config
	socket net.Listener
	inbox  inbox

	mu      sync.Mutex
	links   map[*link]struct{}
	closed  bool
	opening sync.WaitGroup // hellos and links that are being read
}

// Listen listens for givers on an address, as "unix:/path", by the rules of
// spec/transports.md: a lock says that the socket is taken, and nobody meets it
// before it has its mode.
func Listen(address string, options ...Option) (*Listener, error) {
	c := newConfig(options)
	socket, err := listenAt(address, c)
	if err != nil {
		return nil, &Error{Op: "listen", Address: address, Err: err}
	}
	return newListener(socket, c), nil
}

func newListener(socket net.Listener, c *config) *Listener {
	l := &Listener{config: c, socket: socket, links: make(map[*link]struct{}),
		inbox: newInbox(frame.Connection, frame.Listener, frame.File)}
	l.opening.Go(l.acceptChannels)
	return l
}

func (l *Listener) acceptChannels() {
	for {
		socket, err := l.socket.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			l.config.logger.Warn("handoff: cannot accept a channel", "error", err)
			// What is short comes back; nothing tells when.
			time.Sleep(acceptPause)
			continue
		}
		l.opening.Go(func() { l.serve(socket) })
	}
}

// acceptPause is how long a listener that lacks descriptors leaves its backlog alone.
const acceptPause = 10 * time.Millisecond

// serve runs a channel from its hello to its end.
func (l *Listener) serve(socket net.Conn) {
	ch, credentials, err := channelOver(socket)
	if err != nil {
		l.config.logger.Warn("handoff: a channel without a known peer", "error", err)
		return
	}
	link := newLink(l.config, &l.inbox, ch)
	link.address, link.credentials = l.Addr().String(), credentials
	admitted := l.config.admits(credentials)
	if l.config.bare && admitted == nil && l.takeBare(link) {
		return
	}
	if err := link.answer(admitted); err != nil {
		link.reader.Close() // of descriptors that came with it
		_ = ch.Close()
		l.config.logger.Warn("handoff: channel refused", "process", credentials.ProcessID, "user", credentials.UserID, "error", err)
		return
	}
	l.add(link)
	<-link.done
	l.remove(link)
	level := slog.LevelDebug
	if cause := link.err(); !errors.Is(cause, net.ErrClosed) {
		level = slog.LevelWarn
	}
	l.config.logger.Log(context.Background(), level, "handoff: channel ended", "process", credentials.ProcessID, "error", link.err())
}

// takeBare reports whether the peer knew no protocol: then this is all of its channel.
func (l *Listener) takeBare(k *link) bool {
	descriptor, err := k.reader.Bare(time.Now().Add(wire.HelloTimeoutMs * time.Millisecond))
	if err == nil && descriptor == channel.NoDescriptor {
		return false
	}
	defer func() { _ = k.channel.Close() }()
	defer k.reader.Close()
	if err != nil || descriptor == channel.Lost {
		l.config.logger.Warn("handoff: a connection was lost", "process", k.credentials.ProcessID, "error", err)
		return true
	}
	k.bare = true
	queue := l.inbox[frame.Connection]
	a := &arrival{link: k, kind: frame.Connection, descriptor: descriptor, queue: queue}
	if !queue.put(a) {
		closeArrival(a)
	}
	return true
}

func (l *Listener) add(k *link) {
	l.mu.Lock()
	closed := l.closed
	l.links[k] = struct{}{}
	l.mu.Unlock()
	if closed {
		k.refuseAll(closedText)
	}
}

func (l *Listener) remove(k *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.links, k)
}

// closedText is what givers are told.
const closedText = "the process stops listening"

// Accept waits for a connection, always a *Conn, and takes it: its giver is told
// before Accept returns. After Close it returns net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.inbox[frame.Connection].acceptConn(context.Background())
	if err != nil {
		return nil, &net.OpError{Op: "accept", Net: "handoff", Addr: l.Addr(), Err: err}
	}
	return c, nil
}

// AcceptListener waits for a listener, which belongs to the caller from then on.
func (l *Listener) AcceptListener(ctx context.Context) (net.Listener, Meta, error) {
	return l.inbox[frame.Listener].acceptListener(ctx)
}

// AcceptFile waits for a file, which belongs to the caller from then on.
func (l *Listener) AcceptFile(ctx context.Context) (*os.File, Meta, error) {
	return l.inbox[frame.File].acceptFile(ctx)
}

// Addr returns the socket's address.
func (l *Listener) Addr() net.Addr { return l.socket.Addr() }

// Close stops taking: givers are told, what nobody accepted goes back to them, and
// Accept ends. Connections that were accepted live on, and those that may go back
// to their giver keep their channel until they are closed or handed back.
func (l *Listener) Close() error {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	var links []*link
	for k := range l.links {
		links = append(links, k)
	}
	l.mu.Unlock()
	if !first {
		return nil
	}
	err := l.socket.Close()
	var refusing sync.WaitGroup // beside each other: one that does not read holds up its own
	for _, k := range links {
		refusing.Go(func() { k.refuseAll(closedText) })
	}
	refusing.Wait()
	l.inbox.close()
	return err
}

// Shutdown is Close, and waits until every channel has ended: until all
// connections that came by them are closed or handed back.
//
// http.Server.Shutdown drops requests that it has not read yet. A server that is to
// lose none calls SetKeepAlivesEnabled(false), then this, then its own Shutdown.
func (l *Listener) Shutdown(ctx context.Context) error {
	err := l.Close()
	ended := make(chan struct{})
	go func() {
		l.opening.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return err
	case <-ctx.Done():
		return errors.Join(err, context.Cause(ctx))
	}
}
