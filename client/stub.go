package client

import (
	"strings"
	"sync"

	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/status"
)

// A Drift says what becomes of calls through generated code when the server's
// function has changed incompatibly since the code was generated. What is compatible
// spec/schema.md says; such changes are never noticed.
type Drift uint8

const (
	// DriftRefused fails such a call with FAILED_PRECONDITION, not executed, and says
	// what has changed.
	DriftRefused Drift = iota
	// DriftLogged makes the call, and logs what has changed (warn).
	DriftLogged
	// DriftIgnored makes the call.
	DriftIgnored
)

// WithDrift sets what becomes of calls through generated code whose functions have
// changed. The default is DriftRefused.
func WithDrift(drift Drift) Option {
	return func(c *config) { c.drift = drift }
}

// A FuncOption configures what Func0 and its like return.
type FuncOption func(*usage)

// GeneratedFrom tells that the types were generated from a description, in JSON. The
// function is then compared with that instead of its types, and so also by the names
// and places of its parameters. It is for the code that `nearcall gen go` writes.
func GeneratedFrom(description string) FuncOption {
	return func(u *usage) {
		u.stub = &stub{description: sync.OnceValues(func() (*Function, error) {
			return schema.ParseFunctionJSON([]byte(description))
		})}
	}
}

// A stub is what a function was when code was generated for it.
type stub struct{ description func() (*Function, error) }

// hash returns that of the description, "" where that cannot be read.
func (s *stub) hash() string {
	f, err := s.description()
	if err != nil {
		return ""
	}
	return f.Hash
}

// compareStub decides as `nearcall.changes` does, by the same code, so that servers
// which do not have that are served too.
func (c *Client) compareStub(f *describedFunction, s *stub) *status.Error {
	if c.config.drift == DriftIgnored {
		return nil
	}
	before, err := s.description()
	if err != nil {
		return notExecuted(status.InvalidArgument, "%s: what it was generated from: %w", f.Name, err)
	}
	changes := schema.Incompatible(before, f.Function)
	if len(changes) == 0 {
		return nil
	}
	if c.config.drift == DriftLogged {
		c.log.Warn("a function has changed since code was generated for it", "address", c.address, "function", f.Name, "changes", changes)
		return nil
	}
	return notExecuted(status.FailedPrecondition, "%s has changed since this program's code was generated (%s): generate it again with `nearcall gen go`, or see client.WithDrift",
		f.Name, strings.Join(changes, "; "))
}
