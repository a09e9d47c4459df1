// Package functions has the three functions of the example, for a server of their
// own and for a library in the process that calls them.
package functions

import (
	"errors"
	"sync"

	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// Register registers all of them.
func Register(s *server.Server) error {
	var v visits
	return errors.Join(
		s.Register("greet", greet, server.Params("name"), server.Doc("Greets by name.")),
		s.Register("divide", divide, server.Params("dividend", "divisor"), server.Doc("Quotient and remainder.")),
		s.Register("visit", v.add, server.Params("page"), server.Doc("Counts visits of a page, by whichever process.")),
	)
}

func greet(name string) string { return "Hello, " + name + "!" }

func divide(dividend, divisor int64) (quotient, remainder int64, err error) {
	if divisor == 0 {
		return 0, 0, status.Errorf(status.InvalidArgument, "the divisor is 0")
	}
	return dividend / divisor, dividend % divisor, nil
}

// visits is state that all workers of all languages share.
type visits struct {
	mu     sync.Mutex
	counts map[string]int64
}

func (v *visits) add(page string) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.counts == nil {
		v.counts = make(map[string]int64)
	}
	v.counts[page]++
	return v.counts[page]
}
