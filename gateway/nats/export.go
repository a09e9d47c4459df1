package gateway

import (
	"log/slog"
	"sync"

	"github.com/nearcall/nearcall/client"
)

// An exported server is one of this machine whose functions others may call.
type exported struct {
	gateway *Gateway
	config  Export
	log     *slog.Logger
	// client calls the server. It is not for others' deadlines to be bounded by: its calls have
	// the time that their contexts have.
	client *client.Client

	mu sync.Mutex
	// state is up while the server takes calls.
	state serverState
	// instance is the number of the server's process in its welcome, and document its schema.
	instance uint64
	document *client.Document
}

// functions returns the functions that others may call, as they are at present, or nil if the
// server is not there.
func (e *exported) functions() []*client.Function {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != serverUp {
		return nil
	}
	var admitted []*client.Function
	for _, f := range e.document.Functions {
		if e.config.admits(f.Name) {
			admitted = append(admitted, f)
		}
	}
	return admitted
}

// schemaHash returns the hash of the server's schema, or "" if it is not there.
func (e *exported) schemaHash() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != serverUp {
		return ""
	}
	return e.document.Hash
}
