package bus

import (
	"fmt"
	"net"
	"sync"
	"syscall"
)

// Listen accepts connections for a server from all hubs that may publish to this one. Closing the
// listener leaves accepted connections open.
func (h *Hub) Listen(server string) (net.Listener, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, ErrClosed
	case len(server) > nameBytesMax:
		return nil, fmt.Errorf("a server's name of %d bytes: at most %d travel", len(server), nameBytesMax)
	case h.listeners[server] != nil:
		return nil, fmt.Errorf("server %q at this hub: %w", server, syscall.EADDRINUSE)
	}
	made := &listener{hub: h, server: server, backlog: make(chan net.Conn, backlogMax), closed: make(chan struct{})}
	h.listeners[server] = made
	return made, nil
}

type listener struct {
	hub     *Hub
	server  string
	backlog chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.backlog:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.hub.mu.Lock()
		delete(l.hub.listeners, l.server)
		l.hub.mu.Unlock()
		close(l.closed)
		l.drain()
	})
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return addr(l.hub.instance + "/" + l.server) }

// accept answers an OPEN.
func (h *Hub) accept(head header, payload []byte, from origin) {
	wanted, err := parseOpening(payload)
	if err != nil || head.offset != 0 {
		h.turnAway(from, "an OPEN that cannot be read")
		return
	}
	h.mu.Lock()
	l := h.listeners[wanted.server]
	h.mu.Unlock()
	if l == nil {
		h.turnAway(from, fmt.Sprintf("there is no server %q", wanted.server))
		return
	}
	s, err := h.enter(from)
	if err != nil {
		h.turnAway(from, err.Error())
		return
	}
	answer, err := s.begin(head)
	if err != nil {
		h.forget(s)
		h.turnAway(from, err.Error())
		return
	}
	if !l.offer(s, answer, wanted.gateway) {
		h.forget(s)
		h.turnAway(from, fmt.Sprintf("server %q does not accept connections quickly enough", wanted.server))
	}
}

// offer puts a connection where Accept finds it, unless too many wait there, and answers the peer.
// The answer comes before everything that is sent on the connection.
func (l *listener) offer(s *stream, answer header, gateway string) bool {
	s.sendMu.Lock()
	select {
	case l.backlog <- newConn(s, gateway):
		s.say(answer, nil)
		s.sendMu.Unlock()
	default:
		s.sendMu.Unlock()
		return false
	}
	select {
	case <-l.closed:
		l.drain()
	default:
	}
	return true
}

// drain closes the connections that nobody will accept.
func (l *listener) drain() {
	for {
		select {
		case conn := <-l.backlog:
			conn.Close()
		default:
			return
		}
	}
}

// begin opens an accepted stream, and returns what tells the peer.
func (s *stream) begin(head header) (header, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = true
	s.delays.note(head.sentMs, s.hub.config.Now())
	err := s.roomLocked(head.room)
	return s.headerLocked(kindOpened), err
}
