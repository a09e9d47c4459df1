package client

import (
	"strings"
	"sync"

	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/status"
)

// A Drift says what happens to a call through generated code if the server's function
// has changed incompatibly since the code was generated. Compatible changes, which
// spec/schema.md lists, are never reported.
type Drift uint8

const (
	// DriftRefused makes the call fail with FAILED_PRECONDITION, not executed. The
	// error says what has changed.
	DriftRefused Drift = iota
	// DriftLogged makes the call go on, and logs what has changed at level warn.
	DriftLogged
	// DriftIgnored makes the call go on.
	DriftIgnored
)

// WithDrift sets what happens to calls through generated code if their functions have
// changed. The default is DriftRefused.
func WithDrift(drift Drift) Option {
	return func(c *config) { c.drift = drift }
}

// A FuncOption configures the functions that Func0 to Func4 return.
type FuncOption func(*usage)

// GeneratedFrom says that the types were generated from a description, given in JSON.
// The server's function is then compared with this description instead of with the Go
// types. That finds parameters whose names or places have changed, too. It is for the
// code that `nearcall gen go` writes.
func GeneratedFrom(description string) FuncOption {
	return func(u *usage) {
		u.stub = &stub{description: sync.OnceValues(func() (*schema.Function, error) {
			return schema.ParseFunctionJSON([]byte(description))
		})}
	}
}

// A stub holds the description that a function had when code was generated for it.
type stub struct {
	description func() (*schema.Function, error)
}

// hash returns the hash of the description, or "" if the description cannot be read.
func (s *stub) hash() string {
	f, err := s.description()
	if err != nil {
		return ""
	}
	return f.Hash
}

// compareStub compares as the built-in function nearcall.changes does, by the same
// code, so that it also works with servers that do not have that function.
func (c *core) compareStub(f *describedFunction, s *stub) *status.Error {
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
		c.log.Warn("a function has changed since code was generated for it", "address", c.text, "function", f.Name, "changes", changes)
		return nil
	}
	return notExecuted(status.FailedPrecondition, "%s has changed since this program's code was generated (%s): generate it again with `nearcall gen go`, or see client.WithDrift",
		f.Name, strings.Join(changes, "; "))
}
