package tls

import "sync"

// A revocation tells, once, that a peer is not accepted any more.
type revocation struct {
	mu     sync.Mutex
	reason error
	call   func(reason error)
}

// revoke notes the reason, and tells it if there is somebody to tell.
func (r *revocation) revoke(reason error) {
	r.mu.Lock()
	known, call := r.reason != nil, r.call
	if !known {
		r.reason = reason
	}
	r.mu.Unlock()
	if !known && call != nil {
		call(reason)
	}
}

// OnRevoked implements transport.RevocableCarrier.
func (c *Conn) OnRevoked(call func(reason error)) {
	r := &c.revoked
	r.mu.Lock()
	reason := r.reason
	r.call = call
	r.mu.Unlock()
	if reason != nil {
		call(reason)
	}
}
