package tls

import (
	"net"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
)

// beginClose makes sure that nothing more is taken or read. It reports false if that was so
// already.
func (s *sink) beginClose() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	// If this fails the socket is closed, and nobody reads.
	_ = s.socket.SetReadDeadline(time.Unix(1, 0))
	s.changed.Broadcast()
	return true
}

// finish closes the socket when what is sealed has been sent, or after write_timeout_ms.
func (s *sink) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finishing = true
	_ = s.flushLocked()
	if s.emptying {
		_ = s.socket.SetWriteDeadline(time.Now().Add(wire.WriteTimeoutMs * time.Millisecond))
		return
	}
	s.shutLocked()
}

// shutLocked closes the socket of a connection that was closed, once it has nothing left to
// send.
func (s *sink) shutLocked() {
	if !s.finishing || s.shut {
		return
	}
	s.shut = true
	// If bytes are left unread the kernel drops what it has taken and not sent.
	dropInput(s.socket)
	_ = s.socket.Close()
	close(s.gone)
}

// Close does nothing: crypto/tls calls it, and Conn closes the socket in its own time.
func (s *sink) Close() error { return nil }

// SetReadDeadline sets the deadline of the socket, unless the connection was closed.
func (s *sink) SetReadDeadline(deadline time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	return s.socket.SetReadDeadline(deadline)
}

// SetWriteDeadline does nothing, because Write never waits. A tls.Conn whose write has timed
// out could not be used any more.
func (s *sink) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline completes net.Conn.
func (s *sink) SetDeadline(deadline time.Time) error { return s.SetReadDeadline(deadline) }

// LocalAddr and RemoteAddr complete net.Conn.
func (s *sink) LocalAddr() net.Addr  { return s.socket.LocalAddr() }
func (s *sink) RemoteAddr() net.Addr { return s.socket.RemoteAddr() }
