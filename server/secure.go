package server

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/status"
)

// revokedWait is how long a peer that is not accepted any more is given to read why, and what was
// to be sent to it before.
const revokedWait = turnAwayWait

// isIdentified reports whether the peer's certificate says who it is.
func (c *connection) isIdentified() bool {
	_, identified := c.carrier.(transport.Identified)
	return identified
}

// secure lets a carrier that has to do so agree on keys with the peer, and finds out who the
// peer is. The hello must come within the same time. A failure that is a *status.Error can be
// told to the peer.
func (c *connection) secure() error {
	carrier, ok := c.carrier.(transport.Identified)
	if !ok {
		return nil
	}
	if err := c.reader.boundFirst(); err != nil {
		return err
	}
	if err := carrier.Secure(context.Background()); err != nil {
		return toldUnidentified(err)
	}
	if err := c.identified(carrier.Names()); err != nil {
		return err
	}
	if revocable, ok := c.carrier.(transport.RevocableCarrier); ok {
		revocable.OnRevoked(c.revoked)
	}
	return nil
}

// toldUnidentified makes an error for the peer of why it is not accepted.
func toldUnidentified(err error) error {
	var unidentified *transport.Unidentified
	if errors.As(err, &unidentified) {
		return refusedf(status.Unauthenticated, "%s", unidentified.Text)
	}
	return err
}

// identified notes whose the names are, which are nil if there is no certificate. A peer that has names is an account of its own:
// peers that come from one address need not be of one user.
func (c *connection) identified(names []string) error {
	s := c.server
	peer := c.peer.WithNames(names...)
	if list := s.config.allowedIdentities; list != nil && !list.fit(names) {
		return refusedf(status.PermissionDenied, "%s may not call this server; ask its operator to admit the name", listed(names))
	}
	former, joined := c.user, c.user
	if len(names) > 0 {
		var err error
		if joined, err = s.users.join(&peer); err != nil {
			return err
		}
	}
	if !c.become(peer, names, joined) {
		if joined != former {
			s.users.leave(joined)
		}
		return net.ErrClosed
	}
	if joined != former {
		s.users.leave(former)
	}
	return nil
}

// become makes the connection that of another peer, before anything was read. It reports
// false if the connection was closed meanwhile.
func (c *connection) become(peer Peer, names []string, u *user) bool {
	t, o := &c.calls, &c.output
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	c.peer, c.names = peer, names
	c.user, t.user = u, u
	o.kept.share, c.reader.input.share = &u.output, &u.input
	return true
}

// insecure ends a connection whose peer is not accepted, or with which there is no agreement
// on keys.
func (c *connection) insecure(err error) {
	s := c.server
	var refusal *status.Error
	if errors.As(err, &refusal) {
		s.counters.refused.Add(1)
		if s.config.observer != nil {
			c.observeRefusal(refusal)
		}
		c.service.tellRefusal(c, refusal)
		return
	}
	if !hasLeft(err) && !isTimeout(err) {
		s.counters.violations.Add(1)
		s.config.logger.Warn("no agreement on keys; connection closed", "peer", c.peer.String(), "reason", err)
	}
	c.close(err)
	c.end()
}

// hasLeft reports whether the connection was gone before there was an agreement. The peer may be one
// that only looks whether somebody listens, or the server is being closed.
func hasLeft(err error) bool {
	return errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// revoked closes the connection of a peer that is not accepted any more. When it returns, no
// request is accepted any more: reading ends as it does when the server drains. It does not wait.
func (c *connection) revoked(reason error) {
	if c.gate.Load() {
		return
	}
	tell := c.calls.drain()
	// If this fails the connection is closed, and nobody reads.
	_ = c.carrier.SetReadDeadline(time.Unix(1, 0))
	c.server.counters.refused.Add(1)
	c.server.config.logger.Warn("the peer is not accepted any more; connection closed", "peer", c.peer.String(), "reason", reason)
	if !tell {
		// Before the welcome a frame would be taken for another protocol.
		c.close(reason)
		return
	}
	go func() {
		defer c.calls.told()
		// The peer may leave unread what it is told.
		bound := time.AfterFunc(revokedWait, func() { c.close(reason) })
		defer bound.Stop()
		c.sendFailure(0, refusedf(status.Unauthenticated, "%s", reason))
		c.output.finish()
		c.close(reason)
	}()
}
