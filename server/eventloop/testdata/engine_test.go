package server_test

import (
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/server/eventloop"
)

// engineOptions let every server of the tests of package server have the event loop.
func engineOptions() []server.Option {
	return []server.Option{server.WithEngine(eventloop.New())}
}
