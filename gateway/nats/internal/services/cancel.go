package services

import (
	"context"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/nearcall/nearcall/status"
)

// Calls finds the calls of a gateway that have names, so that they can be cancelled. It is safe
// for several goroutines.
type Calls struct {
	prefix       string
	subscription *nats.Subscription
	mu           sync.Mutex
	named        map[string]map[*namedCall]struct{}
}

// A namedCall is one of the calls with a name. Names are the callers' own, so several calls may
// have the same.
type namedCall struct{ cancel context.CancelCauseFunc }

var errCancelled = status.Errorf(status.Cancelled, "the call was cancelled by a message")

// NewCalls listens for cancellations.
func NewCalls(connection *nats.Conn, prefix string) (*Calls, error) {
	c := &Calls{prefix: prefix, named: map[string]map[*namedCall]struct{}{}}
	var err error
	c.subscription, err = connection.Subscribe(cancelSubjects(prefix), c.onCancel)
	return c, err
}

// Close listens no more.
func (c *Calls) Close() {
	_ = c.subscription.Unsubscribe() // It fails if the connection was closed.
}

// begin gives a call its name until end is called.
func (c *Calls) begin(name string, cancel context.CancelCauseFunc) (end func()) {
	call := &namedCall{cancel: cancel}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.named[name] == nil {
		c.named[name] = map[*namedCall]struct{}{}
	}
	c.named[name][call] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if delete(c.named[name], call); len(c.named[name]) == 0 {
			delete(c.named, name)
		}
	}
}

// onCancel ends the contexts of all calls with a name. Every gateway hears of it, and the one that
// has the call answers, if an answer is wanted.
func (c *Calls) onCancel(m *nats.Msg) {
	name := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	c.mu.Lock()
	found := len(c.named[name]) > 0
	for call := range c.named[name] {
		call.cancel(errCancelled)
	}
	c.mu.Unlock()
	if found && m.Reply != "" && mayAnswer(c.prefix, m.Reply) {
		_ = m.Respond(nil) // An engine that is gone has no use for it.
	}
}
